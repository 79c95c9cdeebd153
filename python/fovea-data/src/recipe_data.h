// The data of a recipe opened without the rest of it: what a loader needs to know of the model
// stands in a few of its keys, so nothing of libtorch is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/loader_setup.h"

namespace fovea::python {

struct RecipeDataOptions {
  std::string yaml;    // the recipe, or nothing
  std::string source;  // what messages call it
  // Keys of a recipe ("data.threads") with values as YAML, put into it in turn.
  std::vector<std::pair<std::string, std::string>> changes;
  std::string section = "train";
  int64_t rank = 0;
  int64_t world_size = 1;
  std::optional<int64_t> seed;          // default: run.seed
  std::optional<int64_t> in_chans;      // default: the model's; without one, see open_recipe_data
  std::optional<int64_t> spatial_dims;  // the same
  bool is_uint8 = false;
  std::vector<std::string> class_names;  // of validation; empty: those of data.train
};

// What a Loader takes, for one process. Without a model in the recipe images have 3 channels,
// volumes those of the first sample, and both the sides that they have; images whose transforms end
// with resize_to_patches are packed. Throws ConfigError with every fault of the data section;
// DataError. Other sections are not looked at.
data::LoaderSetup open_recipe_data(const RecipeDataOptions& options);

// Keys that stand beside `train` and `val` in a recipe's data section.
std::vector<std::string> data_keys();

}  // namespace fovea::python
