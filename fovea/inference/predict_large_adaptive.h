// Masks of images that do not fit into memory, by models of adaptive patches.
#pragma once

#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/large_image/mask_writer.h"
#include "fovea/data/large_image/region_source.h"
#include "fovea/inference/large_progress.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::inference {

// Writes the class of each pixel of `image` with `mask`, which is made for its size and the model's
// classes; finish() is the caller's. Of a segmenter that gives patches: the image is cut along its
// tree, the model sees the one sequence, and its logits go back through the tree a band of rows at
// a time. The classes are those that Predictor::masks gives of the same image in memory, bit for
// bit. Reads the image twice a tree. Progress is told in rows, those that are read and those that
// are written.
//
// Throws ConfigError: another kind of model, no data.adaptive_patching, transforms in data.val
// beside `normalize`, whose image would be another one, an image that is not made of bytes or whose
// channels the model does not take, or detail that does not fit; DataError: the image cannot be
// read.
void predict_large_adaptive(const train::Inference& inference, const data::RegionSource& image,
                            data::MaskWriter& mask, const LargeProgress& on_progress = {},
                            const data::OutOfCoreOptions& options = {});

}  // namespace fovea::inference
