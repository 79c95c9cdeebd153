// What stands under `transforms:` of a data set, whatever it holds: transforms of images, or of
// volumes.
#pragma once

#include <vector>

#include "fovea/config/binding.h"
#include "fovea/data/transforms/configs.h"
#include "fovea/data/transforms/volume/volume_configs.h"

namespace fovea::data {

namespace detail {
template <class... Images, class... Volumes>
OneOf<Images..., Volumes...> either(const OneOf<Images...>&, const OneOf<Volumes...>&);
}  // namespace detail

using AnyTransformConfig = decltype(detail::either(TransformConfig(), VolumeTransformConfig()));

bool is_of_volumes(const AnyTransformConfig& transform);

// The list as one of images, or of volumes. Throws ConfigError naming the transforms that are for
// the other kind, and what does the same here.
std::vector<TransformConfig> image_transforms(const std::vector<AnyTransformConfig>& transforms);
std::vector<VolumeTransformConfig> volume_transforms(
    const std::vector<AnyTransformConfig>& transforms);

}  // namespace fovea::data

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::OneOfValue<decltype(data::AnyTransformConfig::value)>;
extern template struct detail::BoundOneOf<data::AnyTransformConfig>;

}  // namespace fovea
