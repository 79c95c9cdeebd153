// Two phases on CIFAR-100 files through the program, and k-NN of what they leave behind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/core/philox.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

class PhasesProgramTest : public ::testing::Test {
 protected:
  PhasesProgramTest() {
    write_records("train.bin", 120, 1);
    write_records("test.bin", 40, 2);
    recipe_ = dir_.write(
        "two_phases.yaml",
        fmt::format("run: {{dir: {0}/run}}\n"
                    "device: {{type: cpu, threads: 1}}\n"
                    "model: {{name: vit, img_size: 16, patch_size: 8, num_classes: 100, embed_dim: "
                    "32, depth: 1, num_heads: 2}}\n"
                    "data:\n"
                    "  train: {{format: cifar, path: {0}, variant: cifar100,\n"
                    "          transforms: [{{name: resize, size: 16}}, {{name: normalize}}]}}\n"
                    "  val: {{format: cifar, path: {0}, variant: cifar100, split: test,\n"
                    "        transforms: [{{name: resize, size: 16}}, {{name: normalize}}]}}\n"
                    "  global_batch_size: 30\n"
                    "optim: {{name: adamw, lr: 0.01}}\n"
                    "trainer: {{max_steps: 12, eval_every_epochs: 0}}\n"
                    "log: {{every_steps: 4, tensorboard: false}}\n"
                    "phases:\n"
                    "  - name: probe\n"
                    "    set: {{trainer: {{freeze: [backbone], cache_features: exact}}}}\n"
                    "  - name: fine_tune\n"
                    "    set: {{optim: {{lr: 0.003}}, model: {{logits_scale: 0.125}}}}\n",
                    dir_.path()));
  }

  // Records of CIFAR-100: coarse label, fine label, three planes; the fine label is how dark it is.
  void write_records(const std::string& name, int64_t count, uint64_t seed) const {
    constexpr int64_t kPlane = 32 * 32;
    RandomStream random(philox_key(seed, name), 0);
    std::vector<uint8_t> bytes;
    for (int64_t i = 0; i < count; ++i) {
      const auto label = static_cast<uint8_t>(i % 4);
      bytes.push_back(0);
      bytes.push_back(label);
      for (int64_t p = 0; p < 3 * kPlane; ++p) {
        bytes.push_back(static_cast<uint8_t>(60 * label + random.below(60)));
      }
    }
    dir_.write(name, bytes);
  }

  // What --json prints stands on the last line; notes on standard error stand before it.
  static nlohmann::json json_of(const testing::ProgramResult& result) {
    const auto end = result.output.find_last_not_of('\n');
    const auto start = result.output.rfind('\n', end);
    return nlohmann::json::parse(result.output.substr(start == std::string::npos ? 0 : start + 1));
  }

  std::string run_dir() const { return dir_.path() + "/run"; }

  data::testing::TempDir dir_;
  std::string recipe_;
};

TEST_F(PhasesProgramTest, TrainsBothEvaluatesAndReports) {
  const auto trained = run_fovea("train " + recipe_ + " --json");
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto result = json_of(trained);
  ASSERT_EQ(result.at("phases").size(), 2u);
  EXPECT_EQ(result.at("phases")[0].at("name"), "probe");
  EXPECT_EQ(result.at("run_dir"), run_dir());
  EXPECT_EQ(result.at("eval"), result.at("phases")[1].at("eval"));
  for (const char* file : {"report.html", "weights.safetensors", "phases.json",
                           "1_probe/report.html", "2_fine_tune/metrics.jsonl"}) {
    EXPECT_TRUE(fs::exists(run_dir() + "/" + file)) << file;
  }
  const auto metrics = [&](const std::string& target) {
    const auto out = run_fovea("eval " + target + " --device cpu --json");
    EXPECT_EQ(out.exit_code, 0) << out.output;
    return json_of(out);
  };
  EXPECT_NEAR(metrics(run_dir()).at("top1"), result.at("eval").at("top1"), 1e-9);
  EXPECT_NEAR(metrics(run_dir() + "/weights.safetensors").at("top1"), result.at("eval").at("top1"),
              1e-9);
  EXPECT_NEAR(metrics(run_dir() + "/1_probe").at("top1"),
              result.at("phases")[0].at("eval").at("top1"), 1e-9);
  // Once more: nothing is trained, and the same is said.
  const auto again = run_fovea("train " + recipe_ + " --json");
  EXPECT_EQ(json_of(again).at("eval"), result.at("eval"));
  const auto plain = run_fovea("train " + run_dir());
  EXPECT_THAT(plain.output, AllOf(HasSubstr("phase probe: 12 steps"), HasSubstr("done: 12 steps")));
  EXPECT_EQ(run_fovea("report " + run_dir()).exit_code, 0);
}

TEST_F(PhasesProgramTest, KnnOfARunAndOfARecipe) {
  ASSERT_EQ(run_fovea("train " + recipe_).exit_code, 0);
  for (const auto& target : {run_dir(), recipe_}) {
    const auto out = run_fovea("eval --device cpu --knn --knn-k 3,7 " + target + " --json");
    ASSERT_EQ(out.exit_code, 0) << out.output;
    const auto result = json_of(out);
    EXPECT_EQ(result.at("num_samples"), 40);
    EXPECT_EQ(result.at("num_neighbors"), 120);
    for (const char* name : {"knn3_top1", "knn3_top5", "knn7_top1", "knn7_top5"}) {
      EXPECT_GT(result.at(name), 90) << target << " " << name;
    }
  }
  const auto text = run_fovea("eval " + run_dir() + " --device cpu --knn");
  EXPECT_THAT(text.output, AllOf(HasSubstr("knn10_top1"), HasSubstr("knn20_top5"),
                                 HasSubstr("40 of data.val, among 120 of data.train")));
  const auto many = run_fovea("eval " + run_dir() + " --device cpu --knn --knn-k 121");
  EXPECT_EQ(many.exit_code, 3);
  EXPECT_THAT(many.output, HasSubstr("k = 121 neighbours of 120 training samples"));
}

TEST_F(PhasesProgramTest, PhasesAreShownChangedAndRefusedByLine) {
  const auto shown = run_fovea("config show " + recipe_ + " phases.1.set.optim.lr=0.5");
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.output, AllOf(HasSubstr("name: fine_tune"), HasSubstr("lr: 0.5")));
  const auto unknown = run_fovea("train " + recipe_ + " phases.1.set.optim.lrr=0.5");
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.output, AllOf(HasSubstr("phases.1.set.optim.lrr=0.5: optim.lrr: unknown key"),
                                    HasSubstr("did you mean lr?")));
  const auto random =
      run_fovea("train " + recipe_ +
                " 'phases.0.set.data.train.transforms=[{name: random_crop, size: 16}, normalize]'");
  EXPECT_EQ(random.exit_code, 3);
  EXPECT_THAT(random.output,
              AllOf(HasSubstr("trainer.cache_features: found exact"), HasSubstr("random_crop")));
  EXPECT_FALSE(fs::exists(run_dir()));
}

}  // namespace
}  // namespace fovea
