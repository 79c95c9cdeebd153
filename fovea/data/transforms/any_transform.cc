#include "fovea/data/transforms/any_transform.h"

#include <fmt/ranges.h>

#include <string>
#include <type_traits>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// A transform of images, and the one of volumes that does the same.
struct Counterpart {
  std::string_view image;
  std::string_view volume;
};

constexpr Counterpart kCounterparts[] = {
    {ResizeConfig::kName, SpatialResizeConfig::kName},
    {CenterCropConfig::kName, CenterSpatialCropConfig::kName},
    {RandomCropConfig::kName, RandSpatialCropConfig::kName},
    {PadConfig::kName, SpatialPadConfig::kName},
    {HorizontalFlipConfig::kName, RandFlipConfig::kName},
    {VerticalFlipConfig::kName, RandFlipConfig::kName},
    {NormalizeConfig::kName, NormalizeIntensityConfig::kName},
    {GaussianBlurConfig::kName, RandGaussianSmoothConfig::kName},
    {ColorJitterConfig::kName, RandScaleIntensityConfig::kName},
};

std::string with_counterpart(std::string_view name) {
  for (const auto& [image, volume] : kCounterparts) {
    if (name == image) return fmt::format("{} (of volumes: {})", name, volume);
    if (name == volume) return fmt::format("{} (of images: {})", name, image);
  }
  return std::string(name);
}

template <class T, class List>
inline constexpr bool kIsIn = false;
template <class T, class... Alternatives>
inline constexpr bool kIsIn<T, OneOf<Alternatives...>> = (std::is_same_v<T, Alternatives> || ...);

template <class Config>
std::vector<Config> only(const std::vector<AnyTransformConfig>& transforms, const char* found,
                         const char* other) {
  std::vector<Config> kept;
  std::vector<std::string> misplaced;
  for (const AnyTransformConfig& transform : transforms) {
    transform.visit_value([&](const auto& chosen) {
      using Chosen = std::decay_t<decltype(chosen)>;
      if constexpr (kIsIn<Chosen, Config>) {
        kept.push_back({chosen});
      } else {
        misplaced.push_back(with_counterpart(Chosen::kName));
      }
    });
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

bool is_of_volumes(const AnyTransformConfig& transform) {
  return transform.visit_value([](const auto& chosen) {
    return kIsIn<std::decay_t<decltype(chosen)>, VolumeTransformConfig>;
  });
}

std::vector<TransformConfig> image_transforms(const std::vector<AnyTransformConfig>& transforms) {
  return only<TransformConfig>(transforms, "images", "volumes");
}

std::vector<VolumeTransformConfig> volume_transforms(
    const std::vector<AnyTransformConfig>& transforms) {
  return only<VolumeTransformConfig>(transforms, "volumes", "images");
}

}  // namespace fovea::data

namespace fovea {

template struct detail::OneOfValue<decltype(data::AnyTransformConfig::value)>;
template struct detail::BoundOneOf<data::AnyTransformConfig>;

}  // namespace fovea
