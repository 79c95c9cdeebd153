// A run on images of mixed sizes as a user meets it: trained, evaluated, and asked about images of
// any size.
#include "tests/data/mixed_sizes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/files.h"
#include "tests/apps/program.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

constexpr const char* kMixedSizesRecipe = R"(
run: {{dir: {0}/run, seed: 3}}
device: {{type: cpu, threads: 1}}
model: {{name: vit, img_size: 16, patch_size: 4, in_chans: 1, num_classes: 2, embed_dim: 16, depth: 1, num_heads: 2,
  patching: packed, pos_embed: factorized}}
task: {{name: classification}}
data:
  train:
    format: folder
    path: {0}/train
    transforms: [{{name: resize_to_patches, patch_size: 4, max_patches: 20, min_patches: 6}}, {{name: normalize}}]
  val:
    format: folder
    path: {0}/val
    transforms: [{{name: resize_to_patches, patch_size: 4, max_patches: 20}}, {{name: normalize}}]
  global_batch_size: 8
  threads: 1
trainer: {{max_steps: 4}}
)";

class MixedSizesProgramTest : public ::testing::Test {
 protected:
  MixedSizesProgramTest() {
    data::testing::write_mixed_sizes(folder_, "train", 16, 1);
    data::testing::write_mixed_sizes(folder_, "val", 6, 2);
    folder_.write("recipe.yaml", fmt::format(kMixedSizesRecipe, folder_.path()));
  }
  std::string output_of(const std::string& command) const {
    const auto result = run_fovea(command);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.output;
    return result.output;
  }

  const data::testing::TempDir folder_;
};

TEST_F(MixedSizesProgramTest, TrainsEvaluatesAndPredicts) {
  output_of("train " + folder_.file("recipe.yaml"));
  const auto run = folder_.file("run");
  EXPECT_THAT(output_of(fmt::format("eval {} --device cpu", run)), HasSubstr("top1"));
  const auto large = folder_.write(
      "large.png", data::encode_png({150, 37, 1, std::vector<uint8_t>(150 * 37, 90)}));
  EXPECT_THAT(output_of(fmt::format("predict {} {} {} --device cpu", run,
                                    folder_.file("val/left/0.png"), large)),
              AllOf(HasSubstr("large.png"), HasSubstr("0.png"), HasSubstr("left")));
}

TEST_F(MixedSizesProgramTest, SummaryAndInspectionKnowIt) {
  const auto recipe = folder_.file("recipe.yaml");
  EXPECT_THAT(output_of("summary " + recipe), HasSubstr("pos_embed_y"));
  EXPECT_THAT(output_of(fmt::format("data inspect {} --out {}", recipe, folder_.file("inspect"))),
              HasSubstr("augmented.png"));
}

TEST_F(MixedSizesProgramTest, IsExplainedImageByImageAndExportedForOneSize) {
  output_of("train " + folder_.file("recipe.yaml"));
  const auto run = folder_.file("run");
  const auto explained = output_of(
      fmt::format("explain {} {} {} --device cpu --out {}", run, folder_.file("val/left/0.png"),
                  folder_.file("val/top/1.png"), folder_.file("explain")));
  EXPECT_THAT(explained, AllOf(HasSubstr("0_rollout.png"), HasSubstr("1_rollout.png")));
  EXPECT_THAT(output_of(fmt::format("export {} {}", run, folder_.file("packed.onnx"))),
              HasSubstr("1, 16, 16"));
}

}  // namespace
}  // namespace fovea
