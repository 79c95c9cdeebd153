// Which format a folder holds, for commands that take a folder where a recipe would name the
// format.
#pragma once

#include <string>

#include "fovea/data/datasets/registry.h"

namespace fovea::data {

// packed (manifest.json), wds (*.tar, also with braces), tiny_imagenet (wnids.txt), else folder.
// Throws DataError where `path` is none of these.
DatasetConfig guess_dataset(const std::string& path);

}  // namespace fovea::data
