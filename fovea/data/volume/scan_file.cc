#include "fovea/data/volume/scan_file.h"

#include "fovea/data/volume/metaimage_file.h"
#include "fovea/data/volume/nifti_file.h"
#include "fovea/data/volume/nrrd_file.h"

namespace fovea::data {

std::unique_ptr<VolumeFile> open_scan(const std::string& path, const ScanOptions& options) {
  if (is_nrrd_name(path)) return open_nrrd(path, options);
  if (is_metaimage_name(path)) return open_metaimage(path, options);
  return open_nifti(path, options);
}

bool scan_has_regions(const std::string& path) {
  const std::string ending = lower_ending(path);
  // A NIfTI file says it by its name; to look into a gzip file would cost its start.
  if (ending == ".gz" || ending == ".nii") return ending == ".nii";
  return open_scan(path)->has_regions();
}

std::string scan_known_as(bool canonical) { return canonical ? "nifti-canonical" : "nifti"; }

}  // namespace fovea::data
