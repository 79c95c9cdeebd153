// What stands under `transforms:` of a data set, whatever it holds: transforms of images, or of
// volumes.
#pragma once

#include <string_view>
#include <vector>

#include "fovea/config/any_of.h"

namespace fovea::data {

// A transform, seen without its config.
class Transform : public ConfigAlternative {
 public:
  static const ConfigAlternatives& alternatives();  // those of images, then those of volumes

  // Whether two epochs may differ by it: false also for a random transform of probability 0.
  virtual bool draws() const = 0;
  // The transform of volumes that does the same; "": there is none, or this is of volumes.
  virtual std::string_view counterpart() const { return {}; }
};

class ImageTransform;
class VolumeTransform;

using AnyTransformConfig = AnyOf<Transform>;
using TransformConfig = AnyOf<ImageTransform>;
using VolumeTransformConfig = AnyOf<VolumeTransform>;

bool is_of_volumes(const AnyTransformConfig& transform);

// The list as one of images, or of volumes. Throws ConfigError naming the transforms that are for
// the other kind, and what does the same here.
std::vector<TransformConfig> image_transforms(const std::vector<AnyTransformConfig>& transforms);
std::vector<VolumeTransformConfig> volume_transforms(
    const std::vector<AnyTransformConfig>& transforms);

}  // namespace fovea::data
