// Whole trainings with parameters shared out, and their checkpoints on other meshes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "fovea/data/datasets/format.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/trainer.h"
#include "tests/parallel/run_ranks.h"
#include "tests/support/tolerance.h"
#include "tests/train/model_cases.h"
#include "tests/train/run_check.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;
using parallel::World;
using parallel::testing::run_ranks;

// A folder that the processes of all launches of a test share: that of the one that runs the test.
class LaunchedFolder {
 public:
  LaunchedFolder() {
    if (const char* given = std::getenv(kName)) {
      path_ = given;
      return;
    }
    path_ = own_.emplace().path();
    ::setenv(kName, path_.c_str(), 1);
  }
  ~LaunchedFolder() {
    if (own_) ::unsetenv(kName);
  }
  LaunchedFolder(const LaunchedFolder&) = delete;
  LaunchedFolder& operator=(const LaunchedFolder&) = delete;

  // True in the process that runs the test, outside of all launches.
  bool is_own() const { return own_.has_value(); }
  const std::string& path() const { return path_; }

 private:
  static constexpr const char* kName = "FOVEA_TEST_LAUNCHED_FOLDER";
  std::string path_;
  std::optional<testing::Folder> own_;
};

// The tiny run with averages, of files in the shared folder.
TrainConfig launched_config(const testing::Folder& own, const LaunchedFolder& folder,
                            const std::string& run) {
  auto config = testing::tiny_config(own);
  const auto move = [&](std::optional<data::DataSectionConfig>& section) {
    auto idx = *section->get_if<data::IdxConfig>();
    for (auto* file : {&idx.images, &idx.labels}) {
      const auto to = folder.path() + "/" + fs::path(*file).filename().string();
      if (folder.is_own()) fs::copy_file(*file, to, fs::copy_options::skip_existing);
      *file = to;
    }
    section = data::DataSectionConfig{idx};
  };
  move(config.data.train);
  move(config.data.val);
  config.run.dir = folder.path() + "/" + run;
  config.trainer.ema = {.enabled = true, .decay = 0.9};
  config.trainer.eval_every_epochs = 1;
  config.checkpoint.every_steps = 1;
  config.checkpoint.keep = 100;
  return config;
}

TrainConfig on_mesh(TrainConfig config, int64_t copies, int64_t shards, int64_t zero = 3) {
  config.parallel = {.dp_replicate = copies, .dp_shard = shards, .zero = zero};
  return config;
}

TrainConfig with_outer_parts(TrainConfig config) {
  config.parallel.shard_outer = "optimizer";
  return config;
}

// Bytes of the files of one part of a checkpoint's state.
uintmax_t bytes_of(const std::string& checkpoint, const std::string& part) {
  uintmax_t bytes = 0;
  for (const auto& file : fs::directory_iterator(checkpoint)) {
    if (file.path().filename().string().starts_with(part + "-")) bytes += file.file_size();
  }
  return bytes;
}

FitResult fit_launched(World& world, const TrainConfig& config) {
  return Trainer(config, ProgressLine::Mode::kSilent, world).fit();
}

std::map<std::string, double> numbers_of_run(const std::string& dir) {
  std::map<std::string, double> numbers;
  std::ifstream lines(dir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    for (const char* name : {"loss", "grad_norm", "top1", "lr"}) {
      if (!record.contains(name)) continue;
      numbers[fmt::format("{} {} {}", record.at("split").get<std::string>(),
                          record.at("step").dump(), name)] = record.at(name);
    }
  }
  return numbers;
}

// Rounding grows from step to step.
void expect_about_same_run(const std::string& actual, const std::string& expected) {
  const auto left = numbers_of_run(actual), right = numbers_of_run(expected);
  ASSERT_GT(right.size(), 36u);
  ASSERT_EQ(left.size(), right.size());
  const auto tolerance = support::Tolerance::for_dtype(at::kFloat);
  for (const auto& [name, value] : right) {
    EXPECT_NEAR(left.at(name), value, 100 * (tolerance.rtol * std::abs(value) + tolerance.atol))
        << name;
  }
}

// 1 process -> 4 -> 3 (whole weights) -> 2 x 2 -> 1, from the checkpoints of steps 2, 4, 6 and 9.
TEST(ShardedTrainerTest, CheckpointsFitAnyMesh) {
  const testing::Folder own;
  const LaunchedFolder folder;
  const auto whole = launched_config(own, folder, "whole");
  const auto moved = launched_config(own, folder, "moved");
  const auto steps_of = [](const std::string& dir) {
    return static_cast<int64_t>(fs::exists(dir) ? checkpoint::Store(dir).steps().size() : 0);
  };
  const auto checkpoints = moved.run.dir + "/checkpoints";
  if (folder.is_own()) {
    testing::fit(whole);
    testing::fit(moved);
    testing::go_back_to(moved.run.dir, 2);
  }
  const auto on_four = [&](World& world) {
    const bool is_first_time = steps_of(checkpoints) == 2;
    world.all().barrier("both saw which");
    const auto config = is_first_time ? on_mesh(moved, 1, 4) : on_mesh(moved, 2, 2);
    EXPECT_EQ(fit_launched(world, config).step, 12);
  };
  // Only where the test runs, between the launches.
  const auto check_and_go_back_to = [&](int64_t step) {
    if (!folder.is_own()) return;
    expect_about_same_run(moved.run.dir, whole.run.dir);
    testing::go_back_to(moved.run.dir, step);
  };
  run_ranks(4, on_four);
  if (folder.is_own()) {
    EXPECT_TRUE(fs::exists(checkpoints + "/step_00000012/optimizer-00003.safetensors"));
  }
  check_and_go_back_to(4);
  run_ranks(3, [&](World& world) {
    EXPECT_EQ(fit_launched(world, on_mesh(moved, 1, 3, /*zero=*/1)).step, 12);
  });
  check_and_go_back_to(6);
  run_ranks(4, on_four);
  // Weights of a run that was shared out, as eval and predict find them.
  for (const char* which : {"best", "latest"}) {
    const auto inference = load_inference(moved.run.dir, {.checkpoint = which, .device = "cpu"});
    EXPECT_TRUE(inference.model->parameters()[0].isfinite().all().item<bool>());
  }
  check_and_go_back_to(9);
  EXPECT_EQ(testing::fit(moved).step, 12);
  expect_about_same_run(moved.run.dir, whole.run.dir);
}

// 1 process -> 2 x tp 2 with tokens (and again, bitwise) -> 4 -> 2 x 2 with outer parts (and again,
// bitwise) -> tp 2 -> 1, from the checkpoints of steps 2, 5, 4, 3, 5, 6 and 9.
TEST(ShardedTrainerTest, CheckpointsFitAnyMeshWithLayersSharedOut) {
  const testing::Folder own;
  const LaunchedFolder folder;
  const auto whole = launched_config(own, folder, "whole");
  const auto moved = launched_config(own, folder, "moved");
  const auto of_layers = [&](int64_t shards) {
    auto config = on_mesh(moved, 1, shards);
    config.parallel.tp = 2;
    config.parallel.sequence_parallel = true;
    return config;
  };
  const auto go_on_from = [&](int64_t step, World& world, const TrainConfig& config) {
    if (world.is_first()) testing::go_back_to(config.run.dir, step);
    world.all().barrier("back at a step");
    EXPECT_EQ(fit_launched(world, config).step, 12);
    if (world.is_first()) expect_about_same_run(moved.run.dir, whole.run.dir);
  };
  if (folder.is_own()) {
    testing::fit(whole);
    testing::fit(moved);
  }
  run_ranks(4, [&](World& world) {
    go_on_from(2, world, of_layers(2));
    const auto copy = folder.path() + "/copy";
    if (world.is_first()) {
      for (const char* file : {"model", "optimizer", "ema"}) {
        EXPECT_TRUE(fs::exists(
            fmt::format("{}/checkpoints/step_00000012/{}-00003.safetensors", moved.run.dir, file)));
      }
      fs::copy(moved.run.dir, copy, fs::copy_options::recursive);
    }
    go_on_from(5, world, of_layers(2));
    if (world.is_first()) testing::expect_same_run(moved.run.dir, copy);
    go_on_from(4, world, on_mesh(moved, 1, 4));
    const auto outer = with_outer_parts(on_mesh(moved, 2, 2));
    go_on_from(3, world, outer);
    const auto outer_copy = folder.path() + "/outer_copy";
    if (world.is_first()) {
      for (const char* part : {"model", "optimizer", "ema"}) {
        const auto parts = bytes_of(moved.run.dir + "/checkpoints/step_00000012", part);
        const auto alone = bytes_of(whole.run.dir + "/checkpoints/step_00000012", part);
        EXPECT_GE(parts, alone) << part;  // headers
        EXPECT_LT(parts, alone + alone / 2) << part;
      }
      fs::copy(moved.run.dir, outer_copy, fs::copy_options::recursive);
    }
    go_on_from(5, world, outer);
    if (world.is_first()) testing::expect_same_run(moved.run.dir, outer_copy);
  });
  run_ranks(2, [&](World& world) { go_on_from(6, world, of_layers(1)); });
  // Weights of a run whose layers were shared out, as eval and predict find them.
  for (const char* which : {"best", "latest"}) {
    const auto inference = load_inference(moved.run.dir, {.checkpoint = which, .device = "cpu"});
    EXPECT_TRUE(inference.model->parameters()[0].isfinite().all().item<bool>());
  }
  testing::go_back_to(moved.run.dir, 9);
  EXPECT_EQ(testing::fit(moved).step, 12);
  expect_about_same_run(moved.run.dir, whole.run.dir);
}

TEST(ShardedTrainerTest, ResumesBitwiseOnTheSameMesh) {
  const testing::Folder own;
  const LaunchedFolder folder;
  const auto whole = launched_config(own, folder, "whole");
  auto cut = whole;
  cut.run.dir = folder.path() + "/cut";
  run_ranks(2, [&](World& world) {
    for (const std::string mode : {"1", "3", "outer"}) {
      const auto shared = [&](const TrainConfig& config) {
        auto result = mode == "outer" ? with_outer_parts(on_mesh(config, 2, 1))
                                      : on_mesh(config, 1, 2, std::stoll(mode));
        result.run.dir += mode;
        return result;
      };
      const auto first = shared(whole), second = shared(cut);
      fit_launched(world, first);
      fit_launched(world, second);
      if (world.is_first()) testing::go_back_to(second.run.dir, 5);
      world.all().barrier("back at step 5");
      EXPECT_EQ(fit_launched(world, second).step, 12);
      if (world.is_first()) testing::expect_same_run(second.run.dir, first.run.dir);
    }
  });
}

// A part that is gone is named, and the checkpoint before is used.
TEST(ShardedTrainerTest, AMissingPartOfACheckpoint) {
  const testing::Folder own;
  const LaunchedFolder folder;
  const auto config = on_mesh(launched_config(own, folder, "run"), 1, 2);
  run_ranks(2, [&](World& world) {
    fit_launched(world, config);
    if (world.is_first()) {
      testing::go_back_to(config.run.dir, 7);
      fs::remove(config.run.dir + "/checkpoints/step_00000007/model-00001.safetensors");
    }
    world.all().barrier("a part is gone");
    EXPECT_EQ(fit_launched(world, config).step, 12);
    if (!world.is_first()) return;
    std::ostringstream log;
    log << std::ifstream(config.run.dir + "/train.log").rdbuf();
    EXPECT_THAT(log.str(), ::testing::HasSubstr(
                               "model-00001.safetensors: cannot open the file (No such file"));
    EXPECT_THAT(log.str(), ::testing::HasSubstr("going on from step 6 of 12"));
  });
}

}  // namespace
}  // namespace fovea::train
