#include "fovea/data/transforms/image/rand_augment.h"

#include <fmt/format.h>

#include <cmath>

#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

TorchvisionMagnitude torchvision_magnitude(int64_t index, int64_t magnitude, int64_t num_bins,
                                           ImageSize size) {
  const double share = static_cast<double>(magnitude) / static_cast<double>(num_bins - 1);
  const double width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  using A = AugmentAction;
  switch (index) {
    case 0:
      return {A::kIdentity, 0, false};
    case 1:
      return {A::kShearX, 0.3 * share, true};
    case 2:
      return {A::kShearY, 0.3 * share, true};
    case 3:
      return {A::kTranslateX, 150.0 / 331.0 * width * share, true};
    case 4:
      return {A::kTranslateY, 150.0 / 331.0 * height * share, true};
    case 5:
      return {A::kRotate, 30.0 * share, true};
    case 6:
      return {A::kBrightness, 0.9 * share, true};
    case 7:
      return {A::kColor, 0.9 * share, true};
    case 8:
      return {A::kContrast, 0.9 * share, true};
    case 9:
      return {A::kSharpness, 0.9 * share, true};
    case 10:
      return {A::kPosterize,
              8 - std::nearbyint(static_cast<double>(magnitude) /
                                 (static_cast<double>(num_bins - 1) / 4)),
              false};
    case 11:
      return {A::kSolarize, 255.0 * (1 - share), false};
    case 12:
      return {A::kAutoContrast, 0, false};
    default:
      return {A::kEqualize, 0, false};
  }
}

double torchvision_arg(const TorchvisionMagnitude& magnitude, bool is_negated) {
  const double value = is_negated && magnitude.is_signed ? -magnitude.value : magnitude.value;
  switch (magnitude.action) {
    case AugmentAction::kTranslateX:
    case AugmentAction::kTranslateY:
      return -std::trunc(value);  // whole pixels, and to where instead of from where
    case AugmentAction::kBrightness:
    case AugmentAction::kColor:
    case AugmentAction::kContrast:
    case AugmentAction::kSharpness:
      return 1.0 + value;
    default:
      return value;
  }
}

void RandAugmentConfig::validate(ConfigIssues& issues) const {
  check_fill(fill, issues);
  if (magnitude >= num_magnitude_bins) {
    issues.add(
        "magnitude", {"num_magnitude_bins"},
        fmt::format("{}; expected less than num_magnitude_bins={}", magnitude, num_magnitude_bins));
  }
}

ImageView RandAugmentConfig::apply(const ImageView& in, RandomStream& random,
                                   TransformScratch& scratch) const {
  const Interpolation resampling = interpolation_from_name(interpolation);
  const FillColor outside = fill_color(fill);
  ImageView view = in;
  for (int64_t i = 0; i < num_ops; ++i) {
    const auto drawn = torchvision_magnitude(random.below(kNumTorchvisionOps), magnitude,
                                             num_magnitude_bins, in.size());
    const bool is_negated = drawn.is_signed && random.bernoulli(0.5);
    view = run_augment_action(drawn.action, torchvision_arg(drawn, is_negated), resampling, outside,
                              view, random, scratch);
  }
  return view;
}

}  // namespace fovea::data
