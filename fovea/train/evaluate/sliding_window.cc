#include "fovea/train/evaluate/sliding_window.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/data/tiles/tile_blend.h"

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

class Windows {
 public:
  Windows(const data::Tiling& tiling, const SlidingWindowConfig& config,
          const std::function<at::Tensor(const at::Tensor&)>& predict)
      : tiling_(tiling), config_(config), predict_(predict) {
    const auto kind = config.blend == "gaussian" ? data::TileWeighting::kGaussian
                                                 : data::TileWeighting::kConstant;
    weights_ = data::tile_weights(kind, tiling.tile_size(), config.sigma_scale);
  }

  // image: [C, sides] -> [K, D, H, W], images with D = 1.
  at::Tensor blend(const at::Tensor& image) {
    at::Tensor blended;
    std::optional<data::TileBlender> blender;
    for (int64_t first = 0; first < tiling_.count(); first += config_.batch_size) {
      const auto last = std::min(tiling_.count(), first + config_.batch_size);
      std::vector<at::Tensor> cut;
      for (int64_t i = first; i < last; ++i) cut.push_back(window_of(image, tiling_.tile(i)));
      const auto predicted =
          predict_(at::stack(cut)).to(at::kCPU, at::kFloat).contiguous();  // [n, K, window]
      if (!blender) {
        blended = empty(predicted.size(1));
        blender.emplace(tiling_, predicted.size(1), weights_, sink(blended));
      }
      const auto values = predicted.numel() / predicted.size(0);
      for (int64_t i = 0; i < last - first; ++i) {
        blender->add({predicted.const_data_ptr<float>() + i * values, static_cast<size_t>(values)});
      }
    }
    blender->finish();
    return blended;
  }

 private:
  at::Tensor empty(int64_t outputs) const {
    const auto size = tiling_.sample_size();
    return at::empty({outputs, size.depth, size.height, size.width}, at::kFloat);
  }

  // Writes finished slabs into `blended`.
  data::TileBlender::Sink sink(const at::Tensor& blended) const {
    const auto size = tiling_.sample_size();
    const int64_t rows = size.depth > 1 ? size.depth : size.height;
    const int64_t row = size.voxels() / rows;
    auto* target = blended.mutable_data_ptr<float>();
    return
        [=, outputs = blended.size(0)](int64_t begin, int64_t end, std::span<const float> values) {
          const int64_t count = (end - begin) * row;
          for (int64_t k = 0; k < outputs; ++k) {
            std::copy_n(values.data() + k * count, count, target + k * size.voxels() + begin * row);
          }
        };
  }

  const data::Tiling& tiling_;
  const SlidingWindowConfig& config_;
  const std::function<at::Tensor(const at::Tensor&)>& predict_;
  std::vector<float> weights_;
};

}  // namespace

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
  data::TilingConfig tiles;
  tiles.tile_size = window.vec();
  tiles.tile_overlap = config.overlap;
  tiles.use_all_data = true;
  const data::Tiling tiling(tiles, size_of(padded.sizes().slice(2)));
  Windows windows(tiling, config, predict);
  std::vector<at::Tensor> blended;
  for (int64_t b = 0; b < padded.size(0); ++b) blended.push_back(windows.blend(padded[b]));
  auto result = at::stack(blended);            // [B, K, D, H, W]
  if (sides == 2) result = result.squeeze(2);  // [B, K, H, W]
  for (int64_t axis = 0; axis < sides; ++axis) {
    const auto front = padding[static_cast<size_t>(2 * (sides - 1 - axis))];
    result = result.narrow(axis + 2, front, images.size(axis + 2));
  }
  return result.contiguous();
}

}  // namespace fovea::train
