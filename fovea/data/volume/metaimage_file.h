// MetaImage files (.mha; .mhd with its data in a file beside it), as they are or zlib-compressed,
// as volumes. Format: itk.org/Wiki/ITK/MetaIO/Documentation.
//
// Axes keep the file's order, the fastest first: [C, D, H, W] = [C, x, y, z], as NIfTI's. Channels
// are ElementNumberOfChannels, or the fourth dimension.
#pragma once

#include <memory>
#include <string>

#include "fovea/data/volume/scan_grid.h"
#include "fovea/data/volume/volume_file.h"

namespace fovea::data {

// Throws DataError: not an image in MetaImage's format, a key that is missing or damaged, a type
// that is not read, values as text or scaled by the header, data in several files or outside of the
// header's folder; a file that is shorter or longer than its header says.
std::unique_ptr<VolumeFile> open_metaimage(const std::string& path,
                                           const ScanOptions& options = {});

}  // namespace fovea::data
