// The sub-commands of `fovea data`, one file each: a new one is declared here and added in data.cc.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/fovea/command_line.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/registry.h"

namespace fovea::app {

// Each adds its sub-command to the group.
void add_data_index(Command group);
void add_data_inspect(Command group);
void add_data_pack(Command group);
void add_data_check(Command group);
void add_data_prepare(Command group);
void add_data_prepare_mni152(Command prepare);
void add_data_balance(Command group);
void add_data_dump(Command group);
void add_data_patch(Command group);
void add_data_unpatch(Command group);

// What commands say of the source that they take.
inline constexpr const char* kDataSourceHelp =
    "recipe (.yaml), or a data set: a folder (packed, of tars, class folders or volumes, or with a "
    "folder for each split), a list (.csv, .jsonl), .tar, .npz, .h5, .nii.gz, .nrrd or .mha";

// Whether `source` names a recipe, rather than a data set.
bool is_data_recipe(const std::string& source);

// The data sets that a command works on: those of a recipe (data.train and data.val), by the names
// "train" and "val" (of a mix "train/NAME"); or those that are found in a file or folder, where the
// only one has no name. Overrides are for recipes only.
std::vector<std::pair<std::string, data::DatasetConfig>> chosen_datasets(
    const std::string& source, const std::vector<std::string>& overrides);

}  // namespace fovea::app
