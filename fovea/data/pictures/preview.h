// A picture of a sample, for reports.
#pragma once

#include "fovea/data/dataset.h"

namespace fovea::data {

// An image as it is. Of a volume the middle slice along D: the first three channels as colours
// where there are three, else the first one in gray; the slice's smallest value is black, its
// largest white, values that are not finite are black.
Image preview_of(const Sample& sample);

}  // namespace fovea::data
