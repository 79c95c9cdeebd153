// One meaning of --model and --weights in all commands, and files of weights that are used alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fovea/core/error.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

class WeightsAloneTest : public ::testing::Test {
 protected:
  WeightsAloneTest() {
    dir_.write("model.yaml", std::string("model: {name: vit, img_size: 8, patch_size: 4, depth: 1, "
                                         "embed_dim: 32, num_heads: 2, num_classes: 3}\n"));
    dir_.write("names.txt", std::string("cat\ndog\nred fox\n"));
    fs::copy_file(FOVEA_SOURCE_DIR "/tests/fuzz/corpus/png_fuzz/png_rgb", at("x.png"));
    run("convert " + at("model.yaml") + " " + at("w.safetensors"));
  }

  std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
  // Of a command that works; in the folder.
  std::string run(const std::string& arguments) const {
    const auto result = run_fovea(arguments, "cd '" + dir_.path() + "' && exec");
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
    return result.output;
  }

  data::testing::TempDir dir_;
};

TEST_F(WeightsAloneTest, PredictTakesInputsForInputs) {
  const auto alone = run("predict --weights w.safetensors x.png --json");
  EXPECT_THAT(alone, HasSubstr("x.png"));
  EXPECT_EQ(run("predict w.safetensors x.png --json"), alone);
  EXPECT_EQ(run("predict --model model.yaml --weights w.safetensors x.png --json"), alone);
  EXPECT_EQ(run("predict model.yaml --weights w.safetensors x.png --json"), alone);
  EXPECT_EQ(run("predict w.safetensors --model model.yaml x.png --json"), alone);
  EXPECT_THAT(run("predict --weights w.safetensors x.png --class-names names.txt"),
              HasSubstr("red fox"));
  const auto none = run_fovea("predict --top 2");
  EXPECT_EQ(none.exit_code, static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(none.output, HasSubstr("RUN_DIR|RECIPE|WEIGHTS|MODEL is missing"));
}

TEST_F(WeightsAloneTest, ExplainExportAndEvalMeanTheSame) {
  run("explain --model model.yaml --weights w.safetensors x.png --out maps");
  EXPECT_TRUE(fs::exists(at("maps/x_rollout.png")));
  run("export --weights w.safetensors out.onnx");
  run("export --model model.yaml --weights w.safetensors out.safetensors --to safetensors "
      "--class-names names.txt");
  EXPECT_TRUE(fs::exists(at("out.onnx")));
  EXPECT_THAT(run("predict out.safetensors x.png"), HasSubstr("red fox")) << "they are kept";
  for (const char* name : {"cat", "dog", "red fox"}) {
    fs::create_directories(at("photos/") + name);
    fs::copy_file(at("x.png"), at("photos/") + name + "/1.png");
  }
  const std::string data =
      "'data.val={format: folder, path: photos, transforms: [{name: resize, size: [8, 8]}, "
      "normalize]}' data.global_batch_size=2";
  EXPECT_THAT(run("eval model.yaml --weights w.safetensors " + data),
              AllOf(HasSubstr("top1"), HasSubstr("num_samples  3")));
  EXPECT_THAT(run("eval --weights w.safetensors " + data), HasSubstr("num_samples  3"));
}

// What shapes do not show is not passed over; a foreign file stays one.
TEST_F(WeightsAloneTest, AnotherModelOfTheSameShapesIsRefused) {
  dir_.write("other.yaml", std::string("model: {name: vit, img_size: 8, patch_size: 4, depth: 1, "
                                       "embed_dim: 32, num_heads: 4, num_classes: 3}\n"));
  const auto refused = run_fovea("predict " + at("other.yaml") + " --weights " +
                                 at("w.safetensors") + " " + at("x.png"));
  EXPECT_EQ(refused.exit_code, static_cast<int>(ExitCode::kData));
  EXPECT_THAT(refused.output, HasSubstr("model.num_heads: 2 in the file, 4 here"));
}

}  // namespace
}  // namespace fovea
