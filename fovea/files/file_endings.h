// Names of files: as they may stand in messages, and what their endings say.
#pragma once

#include <string>
#include <string_view>

#include "fovea/core/printable.h"

namespace fovea {

// The ending, from the last dot on, in lower case; empty where there is no dot.
std::string lower_ending(std::string_view name);

// Ends with .nii or .nii.gz, in any case.
bool is_nifti_name(std::string_view path);
// With .nrrd or .nhdr; with .mha or .mhd.
bool is_nrrd_name(std::string_view path);
bool is_metaimage_name(std::string_view path);
// With one of all these: one scan in a file.
bool is_scan_name(std::string_view path);

}  // namespace fovea
