// What a run left in its folder, and going back to one of its checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/train/recipe/inference.h"
#include "fovea/train/trainer.h"

namespace fovea::train::testing {

inline FitResult fit(const TrainConfig& config) {
  return Trainer(config, ProgressLine::Mode::kSilent).fit();
}

// step -> loss of the training lines, as written: equal text is equal bits.
inline std::map<int64_t, std::string> losses(const std::string& run_dir) {
  std::map<int64_t, std::string> result;
  std::ifstream lines(run_dir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("split") != "train") continue;
    EXPECT_FALSE(result.contains(record.at("step"))) << "two lines of step " << record.at("step");
    result[record.at("step")] = record.at("loss").dump() + " " + record.at("grad_norm").dump();
  }
  return result;
}

inline void expect_same_run(const std::string& actual, const std::string& expected) {
  const auto reference = losses(expected);
  EXPECT_EQ(losses(actual), reference);
  EXPECT_FALSE(reference.empty());
  // The metadata holds the config, and with it the folder's name: compare the tensors.
  const auto weights = [](const std::string& run) {
    return load_inference(run, {.device = "cpu"}).model->named_parameters();
  };
  const auto left = weights(actual), right = weights(expected);
  ASSERT_EQ(left.size(), right.size());
  for (const auto& item : right) EXPECT_TRUE(left[item.key()].equal(item.value())) << item.key();
}

// As if the run had been stopped after `step`: later checkpoints and the results go.
inline void go_back_to(const std::string& run_dir, int64_t step) {
  namespace fs = std::filesystem;
  std::vector<fs::path> later;
  for (const auto& entry : fs::directory_iterator(run_dir + "/checkpoints")) {
    const auto name = entry.path().filename().string();
    if (!entry.is_directory()) continue;
    if (std::stoll(name.substr(name.find('_') + 1)) > step) later.push_back(entry.path());
  }
  EXPECT_FALSE(later.empty()) << run_dir;
  for (const auto& path : later) fs::remove_all(path);
  fs::remove(run_dir + "/weights.safetensors");
}

}  // namespace fovea::train::testing
