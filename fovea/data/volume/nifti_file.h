// NIfTI files (.nii, .nii.gz) as volumes.
#pragma once

#include <memory>
#include <string>

#include "fovea/data/volume/nifti.h"
#include "fovea/data/volume/scan_grid.h"
#include "fovea/data/volume/volume_file.h"

namespace fovea::data {

// Reads the header, of a gzip file by unpacking no more than that. Throws DataError: see
// parse_nifti_header; a file that is shorter or longer than its header says (of a gzip file that is
// seen when it is read), or that unpacks to too much.
std::unique_ptr<VolumeFile> open_nifti(const std::string& path, const ScanOptions& options = {});

// The whole file.
StoredVolume read_nifti(const std::string& path, const ScanOptions& options = {});

}  // namespace fovea::data
