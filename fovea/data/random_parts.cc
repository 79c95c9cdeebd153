#include "fovea/data/random_parts.h"

#include "fovea/data/datasets/mix.h"

namespace fovea::data {
namespace {

bool draws(const AdaptivePatchingConfig& config) {
  const auto& thresholds = config.canny_thresholds;
  const bool draws_threshold = thresholds.size() == 2 && thresholds[1] > thresholds[0] + 1;
  return config.smoothing.size() > 1 || draws_threshold || config.has_noise();
}

void add_random(const std::vector<AnyTransformConfig>& transforms,
                std::vector<std::string>& names) {
  for (const auto& transform : transforms) {
    if (transform->draws()) names.emplace_back(transform.name());
  }
}

}  // namespace

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
