#include "fovea/data/transforms/image/keep_ratio.h"

#include <algorithm>
#include <cmath>

namespace fovea::data {

Interpolation draw_interpolation(const std::string& name, RandomStream& random) {
  if (name != "random") return interpolation_from_name(name);
  return random.below(2) == 0 ? Interpolation::kBilinear : Interpolation::kBicubic;
}

ImageSize draw_size(const KeepRatio& keep, ImageSize image, RandomStream& random) {
  const double height = static_cast<double>(image.height);
  const double width = static_cast<double>(image.width);
  const double ratio_h = height / static_cast<double>(keep.size.height);
  const double ratio_w = width / static_cast<double>(keep.size.width);
  const double ratio =
      std::max(ratio_h, ratio_w) * keep.longest + std::min(ratio_h, ratio_w) * (1.0 - keep.longest);
  double factor_h = 1, factor_w = 1;
  if (keep.scale_prob > 0 && random.uniform(0.0, 1.0) < keep.scale_prob) {
    const double factor = random.uniform(keep.scale[0], keep.scale[1]);
    factor_h = factor_w = keep.is_area ? 1.0 / std::sqrt(factor) : factor;
  }
  if (keep.aspect_prob > 0 && random.uniform(0.0, 1.0) < keep.aspect_prob) {
    const double aspect =
        std::sqrt(std::exp(random.uniform(std::log(keep.aspect[0]), std::log(keep.aspect[1]))));
    factor_h /= aspect;
    factor_w *= aspect;
  }
  // A long and thin image may round to nothing.
  return {std::max<int64_t>(round_half_even(height * factor_h / ratio), 1),
          std::max<int64_t>(round_half_even(width * factor_w / ratio), 1)};
}

}  // namespace fovea::data
