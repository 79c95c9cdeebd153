// T2T-ViT through every command, and every optimizer through `train`.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fovea/data/image/png.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using testing::run_fovea;

class T2tVitCommandsTest : public ::testing::Test {
 protected:
  T2tVitCommandsTest() {
    const testing::StripedImages images(48, 16);
    data::Image image{16, 16, 1, {images.pixels.begin(), images.pixels.begin() + 16 * 16}};
    picture_ = dir_.write("picture.png", data::encode_png(image));
    recipe_ = dir_.write(
        "recipe.yaml",
        fmt::format("run: {{dir: {0}/run}}\n"
                    "device: {{type: cpu, threads: 1}}\n"
                    "model: {{name: t2t_vit, img_size: 16, in_chans: 1, num_classes: 4, "
                    "split_strides: [2, 2, 1],\n        split_paddings: [3, 1, 1], token_dim: 8, "
                    "embed_dim: 24, depth: 2, num_heads: 3}}\n"
                    "data:\n  train: {1}\n  val: {1}\n  global_batch_size: 16\n  threads: 1\n"
                    "trainer: {{max_steps: 3}}\n",
                    dir_.path(), images.write(dir_)));
  }

  void expect_output(const std::string& arguments, const std::string& expected) const {
    const auto result = run_fovea(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
    EXPECT_THAT(result.output, HasSubstr(expected)) << arguments;
  }

  data::testing::TempDir dir_;
  std::string recipe_, picture_;
};

TEST_F(T2tVitCommandsTest, EveryCommandKnowsIt) {
  const auto run = dir_.file("run"), out = dir_.file("pictures");
  expect_output("list models", "t2t_vit_t_24");
  expect_output("summary t2t_vit_14", "tokens_to_token");
  expect_output("summary t2t_vit_14 model.img_size=384 --json", R"("parameters":21691470)");
  expect_output("train " + recipe_, "");
  expect_output("eval " + run + " --json", "top1");
  expect_output("predict " + run + " " + picture_, "picture");
  expect_output("explain " + run + " " + picture_ + " --out " + out, "picture_rollout.png");
  EXPECT_TRUE(std::filesystem::exists(out + "/picture_heads.png"));
  expect_output("bench model " + recipe_ + " --batch-size 2 --steps 1 --warmup 0 --json",
                "images_per_second");
}

TEST_F(T2tVitCommandsTest, TrainsWithEveryOptimizer) {
  for (const std::string name : {"sgd", "lamb", "adafactor", "muon"}) {
    const auto run = dir_.file("run_" + name);
    const auto arguments = recipe_ + " optim.name=" + name + " run.dir=" + run;
    expect_output("train " + arguments, "");
    EXPECT_TRUE(std::filesystem::exists(run + "/weights.safetensors")) << name;
  }
}

}  // namespace
}  // namespace fovea
