// Sizes that keep the aspect ratio, with timm's draws (timm 1.0.31, transforms.py,
// transforms_factory.py).
#pragma once

#include <array>
#include <string>

#include "fovea/core/philox.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/resize.h"

namespace fovea::data {

// What ResizeKeepRatio knows of a config, with its scales and stretches.
struct KeepRatio {
  ImageSize size;
  double longest = 0;
  double scale_prob = 0, aspect_prob = 0;
  std::array<double, 2> scale = {1, 1}, aspect = {1, 1};
  bool is_area = false;
};

// The size that timm's ResizeKeepRatio.get_params gives, with its draws.
ImageSize draw_size(const KeepRatio& keep, ImageSize image, RandomStream& random);
// A name of a resampling, or "random": bilinear or bicubic.
Interpolation draw_interpolation(const std::string& name, RandomStream& random);

}  // namespace fovea::data
