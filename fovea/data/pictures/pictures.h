// Small pictures of samples, and sheets of them, without any text: captions stand in the page.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/volume/slice_plane.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

using Rgb = std::array<uint8_t, 3>;

// Of class 1, 2, ... in a mask, told apart by people who are colour-blind (Okabe and Ito, 2008);
// they repeat. Class 0 and voxels that are not labelled are not coloured.
Rgb class_color(int64_t label);

// [H, W, C] as RGB: 1 channel is gray, of 4 and more the first three are shown, of 2 the first.
Image to_rgb(const ImageView& image);

// Mixes the colours of the classes into a picture of the mask's size (depth 1). Throws Error where
// the sizes differ.
void tint(const LabelMap& mask, Image& rgb);

// Shrunk, with antialiasing, so that neither side is above `side`; or enlarged by the whole number
// up to which that holds, with hard edges. RGB in and out.
Image fit(const Image& rgb, int64_t side);
// Of any number of channels: as it is, or shrunk to a longest side of `side`, bilinear.
Image at_most(Image image, int64_t side);
// With exactly this size: with hard edges where both sides grow by 2 or more, else bilinear.
Image fit_exactly(const Image& rgb, ImageSize size);

// Values that are shown as black and as white.
struct GrayWindow {
  float black = 0;
  float white = 1;
};
// From the 0.5th to the 99.5th percentile, so that single bright voxels do not darken the rest; of
// up to a million evenly spread values.
GrayWindow gray_window(std::span<const float> values);

// A slice of one channel in gray, with the classes of the mask mixed in where `mask` is not empty;
// one pixel a voxel.
Image slice_picture(const Volume& volume, int64_t channel, const LabelMap& mask,
                    const SlicePlane& plane, const GrayWindow& window);

// The pixels of a slice's picture such that a millimetre takes `scale` pixels along both axes.
ImageSize slice_size(const Volume& volume, const SlicePlane& plane, double scale);

// The planes through the middle: one of each axis, or of a volume of depth 1 that of the depth.
std::vector<SlicePlane> middle_planes(const VolumeSize& size, SliceLayout layout);
// Pixels of a millimetre with which the longest side of the volume takes `side` pixels.
double millimetre_scale(const Volume& volume, int64_t side);

// The middle slices of one channel side by side, in the voxels' right proportions, the longest side
// with `side` pixels.
Image volume_picture(const Volume& volume, int64_t channel, const LabelMap& mask,
                     SliceLayout layout, int64_t side);

struct SheetOptions {
  int64_t columns = 8;
  int64_t gap = 4;
  Rgb background = {255, 255, 255};
};
// Pictures in rows, each in the middle of a cell; cells are as large as the largest picture. RGB.
Image contact_sheet(const std::vector<Image>& pictures, const SheetOptions& options = {});
// One above the other, at the left. RGB.
Image stack(const std::vector<Image>& pictures, const SheetOptions& options = {});

// Columns with which `count` cells of this size come closest to a page 1.6 times as wide as high;
// a multiple of `group`, or a divisor of it, so that groups of pictures stay together.
int64_t sheet_columns(int64_t count, ImageSize cell, int64_t group);

}  // namespace fovea::data
