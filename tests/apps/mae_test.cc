// A masked autoencoder through the program: train, evaluate, predict, and its encoder in a
// classifier.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/core/files.h"
#include "fovea/data/image/png.h"
#include "fovea/data/volume/nifti.h"
#include "fovea/files/atomic_file.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

class MaeProgramTest : public ::testing::Test {
 protected:
  // A recipe that trains `model` on `data` for `task` into the folder `run`.
  std::string write_recipe(const std::string& run, const std::string& model,
                           const std::string& task, const std::string& data) const {
    return dir_.write(
        run + ".yaml",
        fmt::format("run: {{dir: {0}/{1}}}\n"
                    "device: {{type: cpu, threads: 1}}\n"
                    "model: {2}\ntask: {{name: {3}}}\n"
                    "data:\n  train: {4}\n  val: {4}\n  global_batch_size: 16\n  threads: 1\n"
                    "trainer: {{max_steps: 6}}\n",
                    dir_.path(), run, model, task, data));
  }

  static std::string mae(const std::string& sides, const std::string& patch) {
    return fmt::format(
        "{{name: mae, encoder: {{img_size: {}, patch_size: {}, in_chans: 1, embed_dim: 24, depth: "
        "1, num_heads: 2}}, decoder_embed_dim: 12, decoder_depth: 1, decoder_num_heads: 2}}",
        sides, patch);
  }

  // Runs the program and expects it to end well. -> its output
  static std::string run_well(const std::string& arguments) {
    const auto result = run_fovea(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
    return result.output;
  }

  data::testing::TempDir dir_;
  std::string images_ = testing::StripedImages(48, 8).write(dir_);
};

TEST_F(MaeProgramTest, TrainsEvaluatesPredictsAndReports) {
  run_well("train " + write_recipe("mae", mae("8", "2"), "masked_autoencoding", images_));
  const auto run = dir_.file("mae");
  const auto metrics = nlohmann::json::parse(run_well("eval " + run + " --json"));
  EXPECT_GT(metrics.at("loss").get<double>(), 0);
  EXPECT_TRUE(metrics.contains("psnr") && metrics.contains("loss_mean_image")) << metrics.dump();
  EXPECT_EQ(nlohmann::json::parse(run_well("eval " + run + " --json")), metrics);
  EXPECT_THAT(read_file(run + "/report.html", 1 << 26),
              AllOf(HasSubstr("input, masked, reconstruction"), HasSubstr("duration"),
                    ::testing::Not(HasSubstr("not yet, or it was stopped"))));

  data::Image image{8, 8, 1, std::vector<uint8_t>(64, 200)};
  const auto png = data::encode_png(image);
  dir_.write("picture.png", std::string(png.begin(), png.end()));
  const auto out = dir_.file("out");
  const auto line = nlohmann::json::parse(
      run_well(fmt::format("predict {} {} --out {} --json", run, dir_.file("picture.png"), out)));
  EXPECT_EQ(line.at("num_masked"), 12);
  EXPECT_EQ(line.at("num_patches"), 16);
  EXPECT_EQ(line.at("files"), nlohmann::json({out + "/picture.png"}));
  data::Image drawn;
  const auto bytes = read_file(out + "/picture.png", 1 << 20);
  data::decode_png({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, drawn);
  EXPECT_EQ(drawn.width, 3 * 112 + 2 * 4);
}

TEST_F(MaeProgramTest, ItsEncoderGoesIntoAClassifier) {
  run_well("train " + write_recipe("mae", mae("8", "2"), "masked_autoencoding", images_));
  const std::string classifier =
      "{name: vit, img_size: 8, patch_size: 2, in_chans: 1, num_classes: 4, embed_dim: 24, depth: "
      "1, num_heads: 2, pos_embed: sincos, global_pool: avg}";
  const auto recipe = write_recipe("probe", classifier, "classification", images_);
  const auto weights = " init.weights=" + dir_.file("mae") + "/weights.safetensors";
  const auto refused = run_fovea("train " + recipe + weights);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, HasSubstr("init.part: encoder"));
  const auto output =
      run_well("train " + recipe + weights + " init.part=encoder trainer.freeze=[backbone]");
  EXPECT_THAT(output, AllOf(HasSubstr("left out"), HasSubstr("decoder"), HasSubstr("head.weight")));
  EXPECT_TRUE(fs::exists(dir_.file("probe") + "/weights.safetensors"));
}

TEST_F(MaeProgramTest, PredictsVolumes) {
  for (int64_t i = 0; i < 2; ++i) {
    data::Volume volume{1, {8, 8, 8}, {1, 1, 1}, {}};
    for (int64_t v = 0; v < 512; ++v)
      volume.values.push_back(static_cast<float>((v * (i + 3)) % 97));
    data::write_nifti(dir_.file(fmt::format("scan{}.nii.gz", i)), volume,
                      data::affine_of_spacing({1, 1, 1}));
  }
  const auto scans = fmt::format(
      "{{format: nifti, path: {}, images: ['scan*.nii.gz'], transforms: [{{name: "
      "scale_intensity_range, a_min: 0, a_max: 100}}]}}",
      dir_.path());
  const auto recipe =
      write_recipe("volumes", mae("[8, 8, 8]", "[4, 4, 4]"), "masked_autoencoding", scans);
  run_well("train " + recipe + " data.global_batch_size=2");
  const auto out = dir_.file("restored");
  run_well(
      fmt::format("predict {} {} --out {}", dir_.file("volumes"), dir_.file("scan1.nii.gz"), out));
  EXPECT_TRUE(fs::exists(out + "/scan1.png"));
  const auto header = data::read_nifti_header(out + "/scan1.nii.gz");
  EXPECT_EQ(header.shape, (std::vector<int64_t>{8, 8, 8}));
}

}  // namespace
}  // namespace fovea
