#include "fovea/files/file_endings.h"

#include "fovea/core/text.h"

namespace fovea {

std::string lower_ending(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  return lowered(name.substr(dot));
}

bool is_nifti_name(std::string_view path) {
  const std::string ending = lower_ending(path);
  return ending == ".nii" ||
         (ending == ".gz" && lower_ending(path.substr(0, path.size() - 3)) == ".nii");
}

bool is_nrrd_name(std::string_view path) {
  const std::string ending = lower_ending(path);
  return ending == ".nrrd" || ending == ".nhdr";
}

bool is_metaimage_name(std::string_view path) {
  const std::string ending = lower_ending(path);
  return ending == ".mha" || ending == ".mhd";
}

bool is_scan_name(std::string_view path) {
  return is_nifti_name(path) || is_nrrd_name(path) || is_metaimage_name(path);
}

}  // namespace fovea
