#include "fovea/data/transforms/any_transform.h"

#include <fmt/ranges.h>

#include <string>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/image_transform.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {
namespace {

// The name, and that of the transform of the other kind that does the same.
std::string with_counterpart(const Transform& transform) {
  if (!transform.counterpart().empty()) {
    return fmt::format("{} (of volumes: {})", transform.name(), transform.counterpart());
  }
  for (const auto& entry : ImageTransform::alternatives()) {
    const auto image = entry.make();
    if (static_cast<const ImageTransform&>(*image).counterpart() != transform.name()) continue;
    return fmt::format("{} (of images: {})", transform.name(), entry.name);
  }
  return std::string(transform.name());
}

template <class Kind>
std::vector<AnyOf<Kind>> only(const std::vector<AnyTransformConfig>& transforms, const char* found,
                              const char* other) {
  std::vector<AnyOf<Kind>> kept;
  std::vector<std::string> misplaced;
  for (const AnyTransformConfig& transform : transforms) {
    if (auto of_kind = transform.as<Kind>()) {
      kept.push_back(*std::move(of_kind));
    } else {
      misplaced.push_back(with_counterpart(*transform));
    }
  }
  if (!misplaced.empty()) {
    fail<ConfigError>(
        "transforms: the data set holds {}, but these are for {}: {}; `fovea list transforms` "
        "lists them all",
        found, other, fmt::join(misplaced, ", "));
  }
  return kept;
}

}  // namespace

const ConfigAlternatives& Transform::alternatives() {
  static const ConfigAlternatives all = [] {
    ConfigAlternatives both = ImageTransform::alternatives();
    const auto& of_volumes = VolumeTransform::alternatives();
    both.insert(both.end(), of_volumes.begin(), of_volumes.end());
    return both;
  }();
  return all;
}

bool is_of_volumes(const AnyTransformConfig& transform) {
  return transform.as<VolumeTransform>().has_value();
}

std::vector<TransformConfig> image_transforms(const std::vector<AnyTransformConfig>& transforms) {
  return only<ImageTransform>(transforms, "images", "volumes");
}

std::vector<VolumeTransformConfig> volume_transforms(
    const std::vector<AnyTransformConfig>& transforms) {
  return only<VolumeTransform>(transforms, "volumes", "images");
}

}  // namespace fovea::data
