// Files that a trained model is applied to: no labels, no folder layout, named one by one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/config.h"
#include "fovea/data/dataset.h"

namespace fovea::data {

// A sample for each input, images (JPEG, PNG) or volumes (NIfTI, or a folder of DICOM slices; the
// files of several modalities divided by ;). like: the data set that the model was trained on,
// whose orientation and scaling of volumes are taken over. Throws ConfigError: images and volumes
// together, an ending that is neither; DataError, here or later: a file that cannot be read.
std::shared_ptr<const Dataset> open_input_files(const std::vector<std::string>& inputs,
                                                const std::optional<DataSectionConfig>& like = {});

}  // namespace fovea::data
