// What models of images say of an image that no memory holds: window after window of the model's
// size, the same numbers as in memory, bit for bit. Memory: a band of rows, as high as a window.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/data/large_image/mask_writer.h"
#include "fovea/data/large_image/region_source.h"
#include "fovea/inference/large_progress.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::inference {

// Progress is told in windows. All throw ConfigError: a model of volumes, of patches or of packed
// images, an image smaller than a window, transforms that no window can be given (a window takes
// the place of resize and crop where the model gives one answer for it; a mask needs normalize
// alone); DataError naming what cannot be read.

// Of a segmenter: windows that overlap as task.sliding_window says, blended, each row of classes
// into `mask`. Throws ConfigError also where the classes of a band do not fit into memory.
void predict_large_masks(const train::Inference& inference, const data::RegionSource& image,
                         data::MaskWriter& mask, const LargeProgress& on_progress = {});

// Of a classifier: windows side by side, the last ones ending at the edge. -> [rows, columns, K]
// scores, float32 on the CPU; a pixel of `mask` has the class of its window, of two the first.
at::Tensor predict_large_classes(const train::Inference& inference, const data::RegionSource& image,
                                 data::MaskWriter& mask, const LargeProgress& on_progress = {});

// Features of those windows, such as of a masked autoencoder's encoder. -> [rows, columns, F]
at::Tensor predict_large_features(const train::Inference& inference,
                                  const data::RegionSource& image,
                                  const LargeProgress& on_progress = {});

}  // namespace fovea::inference
