// A long run takes no more memory than a short one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "fovea/core/json.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

// Peak memory by step, of the lines of the training.
std::map<int64_t, int64_t> memory_by_step(const std::string& metrics) {
  std::map<int64_t, int64_t> memory;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const auto object = parse_json(line, metrics);
    if (object.at("split") == "train") memory[object.at("step")] = object.at("memory_bytes");
  }
  return memory;
}

TEST(FlatMemoryTest, OverThreeThousandSteps) {
  const data::testing::TempDir folder;
  testing::StripedImages(64, 8).write(folder);
  const auto recipe = folder.write(
      "recipe.yaml",
      fmt::format("run: {{dir: {0}/run}}\n"
                  "device: {{type: cpu, threads: 1}}\n"
                  "model: {{name: vit, img_size: 8, patch_size: 4, in_chans: 1, num_classes: 4, "
                  "embed_dim: 32, depth: 1, num_heads: 2, drop_path_rate: 0.1}}\n"
                  "data:\n"
                  "  train: {{format: idx, images: {0}/images, labels: {0}/labels, "
                  "transforms: [horizontal_flip, normalize]}}\n"
                  "  mixup: {{mixup_alpha: 0.2}}\n"
                  "  global_batch_size: 16\n  threads: 1\n"
                  "trainer: {{max_steps: 3000, ema: {{enabled: true}}}}\n"
                  "checkpoint: {{every_steps: 250, keep: 2}}\n"
                  "log: {{every_steps: 50}}\n",
                  folder.path()));
  const auto run = testing::run_fovea("train " + recipe);
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const auto memory = memory_by_step(folder.path() + "/run/metrics.jsonl");
  ASSERT_EQ(memory.size(), 60u);
  // By step 600 each kind of work was done, and two checkpoints were written and one removed.
  constexpr int64_t kMostGrowth = 4 << 20;
  EXPECT_LE(memory.rbegin()->second - memory.at(600), kMostGrowth);
}

}  // namespace
}  // namespace fovea
