// The one thing that is read of EXIF: how the camera was held.
#pragma once

#include <cstdint>
#include <span>

#include "fovea/data/dataset.h"

namespace fovea::data {

// The orientation, 1 to 8, of a TIFF-structured EXIF block (without the "Exif" tag in front); 1 =
// as stored, also where the block is damaged: metadata never makes an image unreadable.
int exif_orientation(std::span<const uint8_t> tiff);

// How an orientation turns pixels: row and column of the turned image come from column and row of
// the stored one where is_transposed, else from row and column; then rows and columns of the stored
// image run backwards or not.
struct Turn {
  bool is_transposed = false;
  bool is_mirrored_x = false;
  bool is_mirrored_y = false;
};
Turn turn_of(int orientation);

// Turns `image` as the orientation says; `scratch` lends its buffer.
void orient(Image& image, int orientation, Image& scratch);

}  // namespace fovea::data
