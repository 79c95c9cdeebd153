// The tasks a recipe can name.
#pragma once

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"
#include "fovea/train/tasks/classification.h"
#include "fovea/train/tasks/diffusion.h"
#include "fovea/train/tasks/masked_autoencoding.h"
#include "fovea/train/tasks/segmentation.h"

namespace fovea::train {

using TaskConfig =
    OneOf<ClassificationConfig, MaskedAutoencodingConfig, SegmentationConfig, DiffusionConfig>;

}  // namespace fovea::train

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::OneOfValue<decltype(train::TaskConfig::value)>;
extern template struct detail::BoundOneOf<train::TaskConfig>;

}  // namespace fovea
