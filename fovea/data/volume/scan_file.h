// Volumes in files of one scan each that say where they lie in the patient: NIfTI (.nii, .nii.gz),
// NRRD (.nrrd, .nhdr), MetaImage (.mha, .mhd). Which one is told from the ending.
#pragma once

#include <memory>
#include <string>

#include "fovea/data/volume/scan_grid.h"
#include "fovea/data/volume/volume_file.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {

// See open_nifti, open_nrrd and open_metaimage; a name with another ending is opened as NIfTI.
std::unique_ptr<VolumeFile> open_scan(const std::string& path, const ScanOptions& options = {});

// Whether the file's VolumeFile may have regions: not of a gzip file, into which it costs something
// to look. Told from the name.
bool scan_may_have_regions(const std::string& path);
// What sizes and ranges of such files are kept under; see known_files.h.
std::string scan_known_as(bool canonical);

}  // namespace fovea::data
