// Generated samples as pictures.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/data/dataset.h"

namespace fovea::train {

// One sample [C, H, W] or [C, D, H, W] within [-value_range, value_range] as an image of bytes:
// three channels as red, green and blue, else the first one as gray; of a volume the middle slice
// of D.
data::Image sample_image(const at::Tensor& sample, double value_range);

// samples: [N, ...], row by row in `columns` columns on black, each pixel enlarged to a square so
// that small images can be seen.
data::Image sample_grid(const at::Tensor& samples, int64_t columns, double value_range);

}  // namespace fovea::train
