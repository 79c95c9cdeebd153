// NIfTI files (.nii, .nii.gz) as volumes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fovea/data/volume/nifti.h"
#include "fovea/data/volume/volume_file.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

struct NiftiOptions {
  // Flip and swap axes to the closest RAS, as nibabel's as_closest_canonical does, without
  // resampling. A file that names no orientation stays as it is.
  bool canonical = false;
  std::optional<int64_t> frame = {};                   // of a 4-D file: only this one
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;  // see check_unpacked_bytes; of gzip files
};

// Reads the header, of a gzip file by unpacking no more than that. Throws DataError: see
// parse_nifti_header; a file that is shorter or longer than its header says (of a gzip file that is
// seen when it is read), or that unpacks to too much.
std::unique_ptr<VolumeFile> open_nifti(const std::string& path, const NiftiOptions& options = {});

// Whether regions of the file cost their own bytes, by its name.
bool nifti_has_regions(const std::string& path);
// What sizes of such files are kept under; see KnownSizes.
std::string nifti_known_as(bool canonical);

// The whole file.
StoredVolume read_nifti(const std::string& path, const NiftiOptions& options = {});

}  // namespace fovea::data
