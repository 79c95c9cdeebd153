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

bool scan_may_have_regions(const std::string& path) { return lower_ending(path) != ".gz"; }

std::string scan_known_as(bool canonical) { return canonical ? "nifti-canonical" : "nifti"; }

}  // namespace fovea::data
