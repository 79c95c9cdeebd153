#include "fovea/data/transforms/image/resize_to_patches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/data/transforms/image/resize.h"

namespace fovea::data {
namespace {

int64_t draw_limit(const ResizeToPatchesConfig& config, RandomStream& random) {
  const int64_t least = config.min_patches.value_or(config.max_patches);
  if (least == config.max_patches) return least;
  return least + random.below(static_cast<uint32_t>(config.max_patches - least + 1));
}

// How far a grid's aspect ratio is from the image's.
double distortion(int64_t rows, int64_t columns, ImageSize image) {
  return std::abs(std::log(static_cast<double>(rows * image.width) /
                           static_cast<double>(columns * image.height)));
}

ImageSize in_pixels(ImageSize grid, int64_t patch_size) {
  return {grid.height * patch_size, grid.width * patch_size};
}

}  // namespace

ImageSize patch_grid(const ResizeToPatchesConfig& config, ImageSize image, int64_t limit) {
  const auto patch = static_cast<double>(config.patch_size);
  const double height = static_cast<double>(image.height) / patch;
  const double width = static_cast<double>(image.width) / patch;
  double scale = std::sqrt(static_cast<double>(limit) / (height * width));
  if (!config.enlarge) scale = std::min(scale, 1.0);
  const auto rounded = [&](double side) {
    return std::clamp<int64_t>(std::llround(side * scale), 1, limit);
  };
  int64_t rows = rounded(height), columns = rounded(width);
  while (rows * columns > limit) {
    const bool drops_row = columns == 1 || (rows > 1 && distortion(rows - 1, columns, image) <=
                                                            distortion(rows, columns - 1, image));
    (drops_row ? rows : columns) -= 1;
  }
  return {rows, columns};
}

void ResizeToPatchesConfig::validate(ConfigIssues& issues) const {
  if (!min_patches || *min_patches <= max_patches) return;
  issues.add("min_patches", {"max_patches"},
             fmt::format("{}; expected at most max_patches={}", *min_patches, max_patches));
}

std::optional<ImageSize> ResizeToPatchesConfig::output_size(std::optional<ImageSize> in) const {
  if (!in || min_patches.value_or(max_patches) < max_patches) {
    return std::nullopt;
  }
  return in_pixels(patch_grid(*this, *in, max_patches), patch_size);
}

ImageView ResizeToPatchesConfig::apply(const ImageView& in, RandomStream& random,
                                       TransformScratch& scratch) const {
  const ImageSize grid = patch_grid(*this, in.size(), draw_limit(*this, random));
  return resize_exactly(in, in_pixels(grid, patch_size), interpolation_from_name(interpolation),
                        scratch);
}

}  // namespace fovea::data
