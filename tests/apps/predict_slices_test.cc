// Models of images that were trained on slices of volumes, applied to whole volumes: what they say
// of a volume is what they say of each of its slices alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "fovea/core/files.h"
#include "fovea/data/volume/nifti_file.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_fovea;

// The axes of the file are not those of the model (canonical): the last two change places, and the
// first is turned round.
constexpr data::Affine kTurnedScan = {{{-2, 0, 0, 40}, {0, 0, 1.5, -10}, {0, 3, 0, 7}}};
constexpr data::VolumeSize kStoredScan = {5, 12, 9};  // given as [5, 9, 12]

float scan_value(int64_t i) { return static_cast<float>((i * i / 7 + 31 * i) % 200); }

void write_scan(const std::string& image, const std::string& mask, int64_t seed) {
  data::Volume volume{1, kStoredScan, {2, 3, 1.5}, {}};
  data::LabelMap labels{kStoredScan, {}};
  for (int64_t i = 0; i < kStoredScan.voxels(); ++i) {
    volume.values.push_back(scan_value(i + 13 * seed));
    labels.classes.push_back(volume.values.back() > 100 ? 1 : 0);
  }
  data::write_nifti(image, volume, kTurnedScan);
  data::write_nifti(mask, labels, kTurnedScan);
}

data::Volume read_volume(const std::string& path, bool canonical = true) {
  const auto stored = data::read_nifti(path, {.canonical = canonical});
  data::Volume volume{stored.channels, stored.size, stored.spacing, {}};
  volume.values.resize(static_cast<size_t>(stored.values()));
  data::convert_values(stored, volume.values.data());
  return volume;
}

class PredictSlicesTest : public ::testing::Test {
 protected:
  PredictSlicesTest() {
    for (int i = 0; i < 2; ++i) {
      write_scan(dir_.file(fmt::format("images/{}.nii.gz", i)),
                 dir_.file(fmt::format("labels/{}.nii.gz", i)), i);
    }
    dir_.write("list.csv", "path,label\nimages/0.nii.gz,0\nimages/1.nii.gz,1\n");
  }

  // Trains `model` for `task` on the slices. data: further keys of the sets.
  std::string train(const std::string& name, const std::string& model, const std::string& task,
                    const std::string& data, const std::string& more = "") const {
    const auto set = fmt::format(
        "{{format: nifti, path: {}, {}, orientation: canonical, transforms: [{{name: "
        "scale_intensity_range, a_min: 0, a_max: 200, b_min: -1, b_max: 1}}]}}",
        dir_.path(), data);
    const auto recipe = dir_.write(
        name + ".yaml",
        fmt::format("run: {{dir: {0}/{1}}}\ndevice: {{type: cpu, threads: 1}}\nmodel: {2}\n"
                    "task: {3}\ndata:\n  train: {4}\n  val: {4}\n  tiling: {{tile_size: [8, 8], "
                    "two_d: true}}\n  global_batch_size: 5\n  threads: 1\n{5}"
                    "optim: {{name: adamw, lr: 1e-2}}\ntrainer: {{max_steps: 2}}\n",
                    dir_.path(), name, model, task, set, more));
    const auto trained = run_fovea("train " + recipe);
    EXPECT_EQ(trained.exit_code, 0) << trained.output;
    return dir_.file(name);
  }

  // The objects that predict prints of these files.
  std::vector<nlohmann::json> predict(const std::string& run, const std::string& arguments) const {
    const auto result = run_fovea(fmt::format("predict {} {} --json", run, arguments));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    std::vector<nlohmann::json> lines;
    std::istringstream text(result.output);
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  std::string scan() const { return dir_.file("images/1.nii.gz"); }

  // Slice `place` of the scan, as the model is given it, in a file of its own.
  std::string slice_file(int64_t place) const {
    const auto whole = read_volume(scan());
    data::Volume slice{1, {1, whole.size.height, whole.size.width}, {1, 1, 1}, {}};
    const auto first = whole.values.begin() + place * slice.size.voxels();
    slice.values.assign(first, first + slice.size.voxels());
    const auto path = dir_.file(fmt::format("slice_{}.nii.gz", place));
    data::write_nifti(path, slice, data::affine_of_spacing({1, 1, 1}));
    return path;
  }

  static constexpr const char* kEncoder =
      "img_size: 8, in_chans: 1, embed_dim: 24, depth: 1, num_heads: 2";
  data::testing::TempDir dir_;
};

TEST_F(PredictSlicesTest, MasksOfSlicesAreStackedOnTheFilesVoxels) {
  const auto run = train("unetr",
                         fmt::format("{{name: unetr, num_classes: 2, feature_size: 4, encoder: "
                                     "{{{}, patch_size: 4}}}}",
                                     "img_size: 8, in_chans: 1, embed_dim: 24, depth: 4, "
                                     "num_heads: 2, class_token: false"),
                         "{name: segmentation}",
                         "images: 'images/*.nii.gz', masks: 'labels/*.nii.gz', num_classes: 2");
  const auto out = dir_.file("masks");
  const auto line = predict(run, scan() + " --out " + out).at(0);
  EXPECT_THAT(line.at("sides").get<std::vector<int64_t>>(), ElementsAre(5, 9, 12));
  EXPECT_EQ(data::read_nifti_header(out + "/1_mask.nii.gz").affine,
            data::read_nifti_header(scan()).affine);
  const auto mask = read_volume(out + "/1_mask.nii.gz");
  predict(run, fmt::format("{} {} --out {}", slice_file(0), slice_file(3), out));
  for (const int64_t place : {0, 3}) {
    const auto alone = read_volume(fmt::format("{}/slice_{}_mask.nii.gz", out, place));
    const auto first = mask.values.begin() + place * alone.size.voxels();
    EXPECT_EQ(std::vector<float>(first, first + alone.size.voxels()), alone.values) << place;
  }
}

TEST_F(PredictSlicesTest, SapSeesTilesOfEachSlice) {
  const auto run = train("sap",
                         fmt::format("{{name: sap, num_classes: 2, decoder_dim: 8, encoder: {{{}, "
                                     "patch_size: 2, fixed_length: 13}}}}",
                                     kEncoder),
                         "{name: segmentation}",
                         "images: 'images/*.nii.gz', masks: 'labels/*.nii.gz', num_classes: 2",
                         "  adaptive_patching: {fixed_length: 13, patch_size: 2, value_range: [-1, "
                         "1]}\n");
  const auto out = dir_.file("masks");
  predict(run, scan() + " --out " + out);
  EXPECT_EQ(read_volume(out + "/1_mask.nii.gz", /*canonical=*/false).size, kStoredScan);
}

TEST_F(PredictSlicesTest, EachSliceHasItsClasses) {
  const auto run =
      train("vit", fmt::format("{{name: vit, num_classes: 2, patch_size: 4, {}}}", kEncoder),
            "{name: classification}", "list: list.csv");
  const auto lines = predict(run, scan());
  ASSERT_EQ(lines.size(), 6);  // 5 slices, and the whole
  double sum = 0;
  const auto score = [](const nlohmann::json& line, const std::string& name) {
    for (const auto& one : line.at("classes")) {
      if (one.at("class") == name) return one.at("score").get<double>();
    }
    return std::nan("");
  };
  for (int64_t d = 0; d < 5; ++d) {
    EXPECT_EQ(lines[d].at("slice"), d);
    sum += score(lines[d], "1");
  }
  EXPECT_FALSE(lines[5].contains("slice"));
  EXPECT_NEAR(score(lines[5], "1"), sum / 5, 1e-6);
  EXPECT_NEAR(score(predict(run, slice_file(3)).back(), "1"), score(lines[3], "1"), 1e-6);
}

TEST_F(PredictSlicesTest, ReconstructionsHaveTheAffineOfTheScan) {
  const auto run = train("mae",
                         fmt::format("{{name: mae, mask_ratio: 0.5, decoder_embed_dim: 12, "
                                     "decoder_depth: 1, decoder_num_heads: 2, encoder: {{{}, "
                                     "patch_size: 2}}}}",
                                     kEncoder),
                         "{name: masked_autoencoding}", "images: 'images/*.nii.gz'");
  const auto out = dir_.file("rebuilt");
  const auto line = predict(run, scan() + " --out " + out).at(0);
  EXPECT_EQ(line.at("num_patches"), 5 * 4 * 16);  // slices, tiles of each, patches
  EXPECT_EQ(line.at("num_masked"), 5 * 4 * 8);
  EXPECT_EQ(data::read_nifti_header(out + "/1.nii.gz").affine,
            data::read_nifti_header(scan()).affine);
  const auto rebuilt = read_volume(out + "/1.nii.gz", /*canonical=*/false);
  const auto original = read_volume(scan(), /*canonical=*/false);
  ASSERT_EQ(rebuilt.size, kStoredScan);
  int64_t seen = 0;  // what was not masked comes back as it was, and where it was
  for (size_t i = 0; i < original.values.size(); ++i) {
    seen += std::abs(rebuilt.values[i] - (original.values[i] / 100 - 1)) < 1e-5;
  }
  EXPECT_GT(seen, kStoredScan.voxels() / 4);
  EXPECT_LT(seen, kStoredScan.voxels() * 9 / 10);
}

TEST_F(PredictSlicesTest, DiffusionTakesNoiseFromEachSlice) {
  const auto run = train(
      "diffusion", fmt::format("{{name: diffusion_vit, encoder: {{{}, patch_size: 4}}}}", kEncoder),
      "{name: diffusion, num_samples: 0, sampler: {steps: 4}}", "images: 'images/*.nii.gz'");
  const auto out = dir_.file("denoised");
  const auto line = predict(run, scan() + " --noise-level 0.3 --out " + out).at(0);
  EXPECT_EQ(line.at("timestep"), 249);
  EXPECT_EQ(data::read_nifti_header(out + "/1.nii.gz").affine,
            data::read_nifti_header(scan()).affine);
  EXPECT_EQ(read_volume(out + "/1.nii.gz", /*canonical=*/false).size, kStoredScan);
  const auto refused = run_fovea(fmt::format("predict {} {} --noise-level 2", run, scan()));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--noise-level"));
}

}  // namespace
}  // namespace fovea
