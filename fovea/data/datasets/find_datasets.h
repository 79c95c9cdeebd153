// Which format a file or folder holds, for commands that take one where a recipe would name the
// format.
#pragma once

#include <string>
#include <vector>

#include "fovea/data/datasets/registry.h"

namespace fovea::data {

struct FoundDataset {
  std::string name;  // "train", "val", "test"; empty: the only one there
  DatasetConfig config;
};

// The data sets of a file or folder, with the defaults of their formats: a list (.csv, .jsonl) of
// images or volumes, tars, HDF5, .npz, MedMNIST's, NIfTI; a folder that `fovea data pack` or
// `prepare` wrote, of tars, IDX files, CIFAR's, Tiny-ImageNet, of volumes, or of class folders.
// Files of several splits, and folders with one folder for each, are a set each. At least one.
// Throws DataError where there is nothing, or nothing that is known.
std::vector<FoundDataset> find_datasets(const std::string& path);

}  // namespace fovea::data
