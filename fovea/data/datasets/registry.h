// Opens the data set that a recipe names, whatever its format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/datasets/format.h"

namespace fovea::data {

// Opens the data set; throws DataError naming what is missing or damaged.
std::shared_ptr<const Dataset> build_dataset(const DatasetConfig& config,
                                             EmptyClasses empty_classes = EmptyClasses::kRefused);

// Of validation: labels are those of class_names, what the model has learned, matched by name
// (empty: not known), and a class may have no sample. Classes of voxels are left as they are.
// Throws ConfigError for a class that is not among them.
std::shared_ptr<const Dataset> build_validation_set(const DatasetConfig& config,
                                                    const std::vector<std::string>& class_names);

}  // namespace fovea::data
