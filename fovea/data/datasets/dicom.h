// DICOM series: each sample is a folder of slices.
#pragma once

#include <memory>
#include <string>

#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/datasets/volume_files.h"

namespace fovea::data {

struct DicomConfig : OrientedFilesConfig {
  static constexpr std::string_view kName = "dicom";
  std::string series_uid = {};

  VolumeAxes volume_axes() const {
    return is_canonical() ? VolumeAxes::kCanonical : VolumeAxes::kDicom;
  }

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    visit_oriented(v, self);
    v.field("series_uid", self.series_uid,
            "series to read where folders hold several; default: the only one");
  }
};

// [1, slices, rows, columns], or [1, x, y, z] with orientation: canonical, in the unit that the
// rescaling gives (Hounsfield for CT). Where `images` is empty each folder below path is a series.
// Masks are series too, files that open_scan opens, or, as .npy, arrays [slices, rows, columns],
// which name no directions and are refused with orientation: canonical. Throws DataError: see
// find_volume_entries.
std::shared_ptr<const Dataset> build_dicom_dataset(const DicomConfig& config);

}  // namespace fovea::data
