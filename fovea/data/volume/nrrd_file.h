// NRRD files (.nrrd; .nhdr with its data in a file beside it), raw and gzip, as volumes.
// Format: teem.sourceforge.net/nrrd/format.html.
//
// Axes in space keep the file's order, the fastest first: [C, D, H, W] = [C, x, y, z], as NIfTI's.
// Which axis holds channels is said by its kind (vector, RGB-color, list, time ...) or by a space
// direction "none".
#pragma once

#include <memory>
#include <string>

#include "fovea/data/volume/scan_grid.h"
#include "fovea/data/volume/volume_file.h"
#include "fovea/files/byte_source.h"

namespace fovea::data {

// Throws DataError: not NRRD, a field that is missing, given twice or damaged, a type or an
// encoding that is not read (block, hex, text, bzip2), several axes of channels or more than three
// in space, data in several files or outside of the header's folder; a file that is shorter or
// longer than its header says.
std::unique_ptr<VolumeFile> open_nrrd(const std::string& path, const ScanOptions& options = {});

}  // namespace fovea::data
