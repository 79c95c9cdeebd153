// A tiny run whose ranks have one folder.
#pragma once

#include <filesystem>
#include <string>

#include "fovea/parallel/world.h"
#include "fovea/train/config.h"
#include "tests/train/model_cases.h"
#include "tests/train/tiny_run.h"

namespace fovea::train::testing {

// One folder for all ranks: that of the first one.
inline std::string shared_folder(parallel::World& world, const Folder& own) {
  return parallel::all_gather_text(world.all(), own.path(), "folders").front();
}

// The tiny run, of the same files on all ranks.
inline TrainConfig shared_config(parallel::World& world, const Folder& own,
                                 const std::string& run) {
  const auto shared = shared_folder(world, own);
  auto config = tiny_config(own);
  const auto move = [&](std::optional<data::DataSectionConfig>& section) {
    auto idx = *section->get_if<data::IdxConfig>();
    idx.images = shared + "/" + std::filesystem::path(idx.images).filename().string();
    idx.labels = shared + "/" + std::filesystem::path(idx.labels).filename().string();
    section = data::DataSectionConfig{idx};
  };
  move(config.data.train);
  move(config.data.val);
  config.run.dir = shared + "/" + run;
  world.all().barrier("the files are there");
  return config;
}

}  // namespace fovea::train::testing
