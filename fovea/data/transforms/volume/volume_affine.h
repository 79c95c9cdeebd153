// Affine resampling of a volume about its centre, with MONAI's conventions.
#pragma once

#include <array>
#include <optional>

#include "fovea/core/philox.h"
#include "fovea/data/transforms/volume/volume_padding.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

struct AffineParams {
  std::array<double, 3> rotate = {};     // radians about the D, H and W axis
  std::array<double, 6> shear = {};      // of H and W in D, of D and W in H, of D and H in W
  std::array<double, 3> translate = {};  // voxels
  std::array<double, 3> scale = {1, 1, 1};
};

// place = linear * x + offset, rows in the order D, H, W.
struct AffineMap {
  std::array<std::array<double, 3>, 3> linear = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  Point offset = {};

  Point operator()(const Point& x) const;
};

// From output voxels to input voxels, both counted from their centres: rotate * shear * translate *
// scale, as MONAI's AffineGrid.
AffineMap affine_map(const AffineParams& params);

enum class SampleMode { kLinear, kNearest };

// Resamples to `size`: output voxel o shows the input at map(o - centre of the output) + centre of
// the input. The mask takes the nearest voxel (halves go to the even one), class 0 outside for
// padding with zeros.
void resample_affine(VolumeItem& item, const AffineMap& map, const Extent& size, SampleMode mode,
                     PaddingMode padding, VolumeScratch& scratch);

}  // namespace fovea::data
