#include "fovea/data/random_parts.h"

#include "fovea/data/datasets/mix.h"

namespace fovea::data {
namespace {

// One overload for each transform and none for all, so that a new one is a question for the
// compiler, not a wrong answer.
bool draws(const ResizeConfig&) { return false; }
bool draws(const CenterCropConfig&) { return false; }
bool draws(const RandomResizedCropConfig&) { return true; }
bool draws(const RandomCropConfig&) { return true; }
bool draws(const PadConfig&) { return false; }
bool draws(const HorizontalFlipConfig& config) { return config.p > 0 && config.p < 1; }
bool draws(const VerticalFlipConfig& config) { return config.p > 0 && config.p < 1; }
bool draws(const NormalizeConfig&) { return false; }
bool draws(const ResizeKeepRatioConfig& config) {
  return config.interpolation == "random" || config.random_scale_prob > 0 ||
         config.random_aspect_prob > 0;
}
bool draws(const CenterCropOrPadConfig&) { return false; }
bool draws(const RandomCropOrPadConfig&) { return true; }
bool draws(const RkrcConfig&) { return true; }
bool draws(const RkrrConfig&) { return true; }
bool draws(const EvalCropConfig&) { return false; }
bool draws(const ResizeToPatchesConfig& config) {
  return config.min_patches && *config.min_patches < config.max_patches;
}
bool draws(const ColorJitterConfig& config) { return config.p > 0; }
bool draws(const GrayscaleConfig& config) { return config.p > 0 && config.p < 1; }
bool draws(const GaussianBlurConfig& config) { return config.p > 0; }
bool draws(const SolarizeConfig& config) { return config.p > 0 && config.p < 1; }
bool draws(const PosterizeConfig& config) { return config.p > 0 && config.p < 1; }
bool draws(const AutoAugmentConfig&) { return true; }
bool draws(const RandAugmentConfig&) { return true; }
bool draws(const RandomErasingConfig& config) { return config.p > 0; }

bool draws(const SpatialPadConfig&) { return false; }
bool draws(const CenterSpatialCropConfig&) { return false; }
bool draws(const RandSpatialCropConfig&) { return true; }
bool draws(const RandCropByPosNegLabelConfig&) { return true; }
bool draws(const CropForegroundConfig&) { return false; }
bool draws(const RandFlipConfig& config) { return config.prob > 0 && config.prob < 1; }
bool draws(const RandRotate90Config& config) { return config.prob > 0; }
bool draws(const RandAffineConfig& config) { return config.prob > 0; }
bool draws(const SpatialResizeConfig&) { return false; }
bool draws(const SpacingConfig&) { return false; }
bool draws(const RandShiftIntensityConfig& config) { return config.prob > 0; }
bool draws(const RandScaleIntensityConfig& config) { return config.prob > 0; }
bool draws(const RandGaussianNoiseConfig& config) { return config.prob > 0; }
bool draws(const RandGaussianSmoothConfig& config) { return config.prob > 0; }
bool draws(const ScaleIntensityRangeConfig&) { return false; }
bool draws(const ScaleIntensityConfig&) { return false; }
bool draws(const NormalizeIntensityConfig&) { return false; }

bool draws(const AdaptivePatchingConfig& config) {
  const auto& thresholds = config.canny_thresholds;
  const bool draws_threshold = thresholds.size() == 2 && thresholds[1] > thresholds[0] + 1;
  return config.smoothing.size() > 1 || draws_threshold || config.has_noise();
}

void add_random(const std::vector<AnyTransformConfig>& transforms,
                std::vector<std::string>& names) {
  for (const auto& transform : transforms) {
    if (is_random(transform)) names.emplace_back(transform.name());
  }
}

}  // namespace

bool is_random(const AnyTransformConfig& transform) {
  return transform.visit_value([](const auto& chosen) { return draws(chosen); });
}

std::vector<std::string> random_parts(const DataConfig& config) {
  std::vector<std::string> names;
  if (!config.train) return names;
  add_random((*config.train)->transforms(), names);
  if (const auto* mix = config.train->get_if<MixConfig>()) {
    for (const auto& set : mix->sets) add_random(set.source->transforms(), names);
  }
  if (config.adaptive_patching && draws(*config.adaptive_patching)) {
    names.emplace_back("adaptive_patching");
  }
  if (config.mixup.is_on()) names.emplace_back("mixup");
  return names;
}

}  // namespace fovea::data
