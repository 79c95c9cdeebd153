#include "fovea/train/evaluate/sliding_window.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "fovea/core/error.h"

// B batch, C channels, K outputs of a voxel.
namespace fovea::train {
namespace {

// What an axis lacks to be as long as the window, in front and behind, from the last axis on.
std::vector<int64_t> missing(const at::Tensor& images, at::IntArrayRef window) {
  std::vector<int64_t> padding;
  for (size_t axis = window.size(); axis-- > 0;) {
    const auto lacks =
        std::max<int64_t>(window[axis] - images.size(static_cast<int64_t>(axis) + 2), 0);
    padding.push_back(lacks / 2);
    padding.push_back(lacks - lacks / 2);
  }
  return padding;
}

// Depth 1 stands for images.
data::VolumeSize size_of(at::IntArrayRef sides) {
  const auto last = sides.size();
  return {sides.size() == 3 ? sides[0] : 1, sides[last - 2], sides[last - 1]};
}

// image: [C, sides]; tile: a window of it. -> [C, window]
at::Tensor window_of(const at::Tensor& image, const data::Tile& tile) {
  const auto sides = image.dim() - 1;
  const std::array<int64_t, 3> lengths = {tile.size.depth, tile.size.height, tile.size.width};
  auto cut = image;
  for (int64_t axis = 3 - sides; axis < 3; ++axis) {
    cut = cut.narrow(axis - 2 + sides, tile.start[static_cast<size_t>(axis)],
                     lengths[static_cast<size_t>(axis)]);
  }
  return cut;
}

// image: [C, sides] -> [K, D, H, W], images with D = 1.
at::Tensor blend_image(const at::Tensor& image, const data::Tiling& tiling,
                       const SlidingWindowConfig& config,
                       const std::function<at::Tensor(const at::Tensor&)>& predict) {
  const auto size = tiling.sample_size();
  const int64_t row = size.voxels() / (size.depth > 1 ? size.depth : size.height);
  at::Tensor blended;
  const auto predict_some = [&](int64_t first, int64_t count) {
    std::vector<at::Tensor> cut;
    for (int64_t i = first; i < first + count; ++i) cut.push_back(window_of(image, tiling.tile(i)));
    return predict(at::stack(cut));
  };
  const auto keep = [&](int64_t begin, int64_t end, std::span<const float> values) {
    const int64_t count = (end - begin) * row;
    const auto outputs = static_cast<int64_t>(values.size()) / count;
    if (!blended.defined()) {
      blended = at::empty({outputs, size.depth, size.height, size.width}, at::kFloat);
    }
    auto* target = blended.mutable_data_ptr<float>();
    for (int64_t k = 0; k < outputs; ++k) {
      std::copy_n(values.data() + k * count, count, target + k * size.voxels() + begin * row);
    }
  };
  blend_windows(tiling, config, predict_some, keep);
  return blended;
}

}  // namespace

data::Tiling window_tiling(const data::VolumeSize& size, at::IntArrayRef window,
                           const SlidingWindowConfig& config) {
  data::TilingConfig tiles;
  tiles.tile_size = window.vec();
  tiles.tile_overlap = config.overlap;
  tiles.use_all_data = true;
  return {tiles, size};
}

void blend_windows(const data::Tiling& windows, const SlidingWindowConfig& config,
                   const std::function<at::Tensor(int64_t first, int64_t count)>& predict,
                   const data::TileBlender::Sink& sink) {
  const auto kind =
      config.blend == "gaussian" ? data::TileWeighting::kGaussian : data::TileWeighting::kConstant;
  const auto weights = data::tile_weights(kind, windows.tile_size(), config.sigma_scale);
  std::optional<data::TileBlender> blender;
  for (int64_t first = 0; first < windows.count(); first += config.batch_size) {
    const auto count = std::min(windows.count() - first, config.batch_size);
    const auto predicted =
        predict(first, count).to(at::kCPU, at::kFloat).contiguous();  // [n, K, window]
    if (!blender) blender.emplace(windows, predicted.size(1), weights, sink);
    const auto values = predicted.numel() / count;
    for (int64_t i = 0; i < count; ++i) {
      blender->add({predicted.const_data_ptr<float>() + i * values, static_cast<size_t>(values)});
    }
  }
  blender->finish();
}

at::Tensor sliding_window(const at::Tensor& images, at::IntArrayRef window,
                          const SlidingWindowConfig& config,
                          const std::function<at::Tensor(const at::Tensor&)>& predict) {
  const auto sides = static_cast<int64_t>(window.size());
  FOVEA_CHECK((sides == 2 || sides == 3) && images.dim() == sides + 2,
              "images of shape [{}] and a window of [{}]; expected [B, C, H, W] and [H, W], or [B, "
              "C, D, H, W] and [D, H, W]",
              fmt::join(images.sizes(), ", "), fmt::join(window, ", "));
  const auto padding = missing(images, window);
  const auto padded = at::constant_pad_nd(images, padding);  // [B, C, padded sides]
  const auto tiling = window_tiling(size_of(padded.sizes().slice(2)), window, config);
  std::vector<at::Tensor> blended;
  for (int64_t b = 0; b < padded.size(0); ++b)
    blended.push_back(blend_image(padded[b], tiling, config, predict));
  auto result = at::stack(blended);            // [B, K, D, H, W]
  if (sides == 2) result = result.squeeze(2);  // [B, K, H, W]
  for (int64_t axis = 0; axis < sides; ++axis) {
    const auto front = padding[static_cast<size_t>(2 * (sides - 1 - axis))];
    result = result.narrow(axis + 2, front, images.size(axis + 2));
  }
  return result.contiguous();
}

}  // namespace fovea::train
