// A volume's file that comes as bytes, such as over a network.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "fovea/data/dataset.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::inference {

// Whether the bytes begin as a NIfTI file does, alone or packed by gzip. Formats whose files can
// name other files (NRRD, MetaImage, pairs of files) are none: their bytes may be a stranger's.
bool is_volume_file(std::span<const uint8_t> bytes);

// The one volume, read as inference.open_files does. Its bytes lie in a file of this process alone
// as long as the data set is held: readers of volumes walk over files that no memory need hold.
// Messages call it `name`. Throws as open_files; DataError: the file cannot be written.
std::shared_ptr<const data::Dataset> open_volume_in_memory(std::span<const uint8_t> bytes,
                                                           const std::string& name,
                                                           const train::Inference& inference);

}  // namespace fovea::inference
