#include "fovea/data/datasets/volume_axes.h"

#include <type_traits>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

template <class Config>
VolumeAxes axes_of_format(const Config& config) {
  if constexpr (std::is_base_of_v<OrientedFilesConfig, Config>) {
    if (config.is_canonical()) return VolumeAxes::kCanonical;
  }
  if constexpr (std::is_base_of_v<ScanFilesConfig, Config> ||
                std::is_same_v<Config, BasicCtConfig>) {
    return VolumeAxes::kXyz;
  } else if constexpr (std::is_same_v<Config, DicomConfig>) {
    return VolumeAxes::kDicom;
  } else if constexpr (std::is_same_v<Config, MixConfig>) {
    for (const MixSetConfig& set : config.sets) {
      const VolumeAxes axes = volume_axes(set.source);
      if (axes != VolumeAxes::kUnknown) return axes;
    }
  }
  return VolumeAxes::kUnknown;
}

}  // namespace

VolumeAxes volume_axes(const DatasetConfig& config) {
  return config.visit_value([](const auto& chosen) { return axes_of_format(chosen); });
}

VolumeAxes volume_axes(const DataSectionConfig& section) {
  return section.visit_value([](const auto& chosen) { return axes_of_format(chosen); });
}

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
