// A tiny run whose ranks have one folder.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/data/datasets/idx.h"
#include "fovea/parallel/world.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/trainer.h"
#include "tests/support/tolerance.h"
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

inline FitResult fit_in(parallel::World& world, const TrainConfig& config) {
  return Trainer(config, ProgressLine::Mode::kSilent, world).fit();
}

// By the lines of metrics.jsonl of two run folders.
inline void expect_close_losses(const std::string& actual, const std::string& expected) {
  const auto read = [](const std::string& dir) {
    std::map<std::string, double> numbers;
    std::ifstream lines(dir + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      for (const char* name : {"loss", "grad_norm", "top1", "top5", "lr", "epoch"}) {
        if (!record.contains(name)) continue;
        const auto split = record.at("split").get<std::string>();
        numbers[fmt::format("{} {} {}", split, record.at("step").dump(), name)] = record.at(name);
      }
    }
    return numbers;
  };
  const auto left = read(actual), right = read(expected);
  ASSERT_GT(right.size(), 40u);
  ASSERT_EQ(left.size(), right.size());
  const auto tolerance = support::Tolerance::for_dtype(at::kFloat);
  for (const auto& [name, value] : right) {
    // Rounding grows from step to step.
    EXPECT_NEAR(left.at(name), value, 100 * (tolerance.rtol * std::abs(value) + tolerance.atol))
        << name;
  }
}

}  // namespace fovea::train::testing
