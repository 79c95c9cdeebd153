// Small pictures of samples, for reports.
#pragma once

#include <cstdint>
#include <string>

#include "fovea/data/dataset.h"
#include "fovea/data/image/image_view.h"

namespace fovea::train {

// Longest side of a picture in a report, in pixels: a report stays small, whatever the images are.
constexpr int64_t kPictureSide = 160;

// `image` as the bytes of a PNG file, shrunk where its longer side is over kPictureSide.
std::string small_png(data::Image image);

// Of a sample as it is before its transforms. Empty, with a line in the log, where it cannot be
// read any more.
std::string sample_picture(const data::Dataset& dataset, int64_t index);

}  // namespace fovea::train
