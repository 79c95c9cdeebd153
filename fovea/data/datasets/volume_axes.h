// What D, H and W of a set's volumes are, by its format and keys: sets that a model is trained on,
// evaluated on and applied to must agree in it, for another order looks like another anatomy.
#pragma once

#include <string_view>

#include "fovea/data/volume/slice_plane.h"

namespace fovea::data {

enum class VolumeAxes {
  kUnknown,    // images, or arrays, which name no directions
  kXyz,        // x, y, z as each file of a scan stores them: NIfTI, NRRD, MetaImage
  kDicom,      // slices, rows, columns
  kCanonical,  // right, anterior, superior, whatever the file
};

// "[slices, rows, columns] (format: dicom)"
std::string_view text_of(VolumeAxes axes);
// How planes of such volumes are drawn.
SliceLayout slice_layout(VolumeAxes axes);

// Throws ConfigError where both are known and differ; `a_name` and `b_name` are what messages call
// the two.
void check_same_axes(VolumeAxes a, std::string_view a_name, VolumeAxes b, std::string_view b_name);

}  // namespace fovea::data
