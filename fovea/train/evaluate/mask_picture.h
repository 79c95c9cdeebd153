// Pictures of masks over their images.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::train {

// [sides] int classes on the CPU as the data's label map; images get depth 1.
data::LabelMap to_label_map(const at::Tensor& classes);

// Three pictures side by side: the image in gray, the image with `labels`, the image with
// `predicted`, each enlarged or shrunk to `side` pixels; of volumes the middle slice of the
// shortest axis. Class 0 and voxels without a class are not coloured. image: [C, sides] float, of
// which the first channel is shown; labels, predicted: [sides].
data::Image mask_picture(const at::Tensor& image, const at::Tensor& labels,
                         const at::Tensor& predicted, int64_t side);

// `image` with the classes' colours mixed in. RGB.
data::Image tinted(const data::Image& image, const data::LabelMap& classes);

// The middle slice along D of one channel of a volume in gray, with the classes' colours mixed in.
data::Image tinted(const data::Volume& volume, const data::LabelMap& classes);

}  // namespace fovea::train
