#include "fovea/data/datasets/volume_axes.h"

#include "fovea/core/error.h"

namespace fovea::data {

std::string_view text_of(VolumeAxes axes) {
  switch (axes) {
    case VolumeAxes::kXyz:
      return "[x, y, z] as each NIfTI, NRRD or MetaImage file stores them";
    case VolumeAxes::kDicom:
      return "DICOM's [slices, rows, columns]";
    case VolumeAxes::kCanonical:
      return "right, anterior, superior (orientation: canonical)";
    case VolumeAxes::kUnknown:
      break;
  }
  return "unknown";
}

SliceLayout slice_layout(VolumeAxes axes) {
  const bool is_xyz = axes == VolumeAxes::kXyz || axes == VolumeAxes::kCanonical;
  return is_xyz ? SliceLayout::kCartesian : SliceLayout::kMatrix;
}

void check_same_axes(VolumeAxes a, std::string_view a_name, VolumeAxes b, std::string_view b_name) {
  if (a == b || a == VolumeAxes::kUnknown || b == VolumeAxes::kUnknown) return;
  fail<ConfigError>(
      "the axes of {} are {}, those of {} {}; expected the same: set orientation: canonical in "
      "both, and train with it",
      a_name, text_of(a), b_name, text_of(b));
}

}  // namespace fovea::data
