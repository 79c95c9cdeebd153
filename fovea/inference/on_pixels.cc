#include "fovea/inference/on_pixels.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <fmt/ranges.h>

#include <optional>
#include <span>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/volume/normalize_intensity.h"
#include "fovea/data/transforms/volume/scale_intensity.h"
#include "fovea/data/transforms/volume/scale_intensity_range.h"
#include "fovea/data/transforms/volume/spatial_resize.h"

namespace fovea::inference {

bool only_scales(const train::Inference& inference) {
  if (!inference.config || !inference.config->data.val) return false;
  for (const auto& transform : (*inference.config->data.val)->transforms()) {
    const auto* resize = transform.get_if<data::ResizeConfig>();
    const bool is_resize = (resize != nullptr && resize->size.size() == 2) ||
                           transform.get_if<data::SpatialResizeConfig>() != nullptr;
    const bool keeps_places = transform.get_if<data::NormalizeConfig>() != nullptr ||
                              transform.get_if<data::NormalizeIntensityConfig>() != nullptr ||
                              transform.get_if<data::ScaleIntensityConfig>() != nullptr ||
                              transform.get_if<data::ScaleIntensityRangeConfig>() != nullptr;
    if (!is_resize && !keeps_places) return false;
  }
  return true;
}

at::Tensor on_input_pixels(const at::Tensor& values, const std::vector<int64_t>& sides,
                           const train::Inference& inference, const std::string& input) {
  const auto found = values.sizes().slice(2);
  if (found == at::IntArrayRef(sides)) return values;
  if (found.size() != sides.size() || !only_scales(inference)) {
    fail<ConfigError>(
        "{}: the transforms of data.val make it [{}] where it was [{}], so a prediction would not "
        "lie on "
        "its pixels; expected transforms that keep the size, or scale to one (resize with two "
        "sides, spatial_resize)",
        input, fmt::join(found, ", "), fmt::join(sides, ", "));
  }
  constexpr bool kAlignCorners = false;
  return sides.size() == 3 ? at::upsample_trilinear3d(values, sides, kAlignCorners)
                           : at::upsample_bilinear2d(values, sides, kAlignCorners);
}

void blend_sample(const data::TiledDataset& tiles, int64_t sample,
                  const std::function<at::Tensor(int64_t tile)>& predict,
                  const data::TileBlender::Sink& sink) {
  const auto tiling = tiles.tiling(sample);
  const auto weights = data::tile_weights(data::TileWeighting::kConstant, tiling.tile_size());
  std::optional<data::TileBlender> blender;
  const auto first = tiles.first_tile(sample);
  for (int64_t tile = first; tile < first + tiles.num_tiles(sample); ++tile) {
    const auto values = predict(tile).to(at::kCPU, at::kFloat).contiguous();
    if (!blender) blender.emplace(tiling, values.size(0), weights, sink);
    blender->add({values.const_data_ptr<float>(), static_cast<size_t>(values.numel())});
  }
  blender->finish();
}

std::vector<at::Tensor> blend_pictures(
    const data::TiledDataset& tiles, int64_t sample, const train::Inference& inference,
    const std::string& input, const std::function<std::vector<at::Tensor>(int64_t tile)>& draw) {
  const auto tiling = tiles.tiling(sample);
  const auto tile_size = tiling.tile_size(), size = tiling.sample_size();
  size_t count = 0;
  at::Tensor together;  // [pictures * C, D * H * W]
  const auto predict = [&](int64_t tile) {
    const auto pictures = draw(tile);
    count = pictures.size();
    const auto values = at::cat(pictures).unsqueeze(0);  // [1, pictures * C, sides]
    std::vector<int64_t> sides = {tile_size.height, tile_size.width};
    if (values.dim() == 5) sides.insert(sides.begin(), tile_size.depth);
    if (!together.defined()) together = at::empty({values.size(1), size.voxels()}, at::kFloat);
    return on_input_pixels(values, sides, inference, input).squeeze(0);
  };
  const auto row = size.voxels() / (size.depth > 1 ? size.depth : size.height);
  blend_sample(tiles, sample, predict,
               [&](int64_t first, int64_t last, std::span<const float> values) {
                 const auto slab = at::from_blob(const_cast<float*>(values.data()),
                                                 {together.size(0), (last - first) * row});
                 together.narrow(1, first * row, slab.size(1)).copy_(slab);
               });
  return together.view({together.size(0), size.depth, size.height, size.width})
      .chunk(static_cast<int64_t>(count));
}

}  // namespace fovea::inference
