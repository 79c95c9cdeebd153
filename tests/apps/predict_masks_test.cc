// fovea predict of a segmentation run: masks as files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/image/png.h"
#include "fovea/data/volume/nifti_file.h"
#include "tests/apps/program.h"
#include "tests/data/stored_zip.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

// x, y, z are not in RAS order: the first axis points left, the other two are swapped.
constexpr data::Affine kTurned = {{{-2, 0, 0, 40}, {0, 0, 1.5, -10}, {0, 3, 0, 7}}};

// Voxels above 100 are class 1; so are the labels.
void write_turned(const std::string& image, const std::string& mask, int64_t seed) {
  const data::VolumeSize size = {9, 10, 12};
  data::Volume volume{1, size, {2, 3, 1.5}, {}};
  data::LabelMap labels{size, {}};
  for (int64_t i = 0; i < size.voxels(); ++i) {
    const bool is_bright = (i / 7 + seed) % 3 == 0 || i % 12 < 4;
    volume.values.push_back(is_bright ? 180.0f : static_cast<float>(i % 50));
    labels.classes.push_back(is_bright ? 1 : 0);
  }
  data::write_nifti(image, volume, kTurned);
  data::write_nifti(mask, labels, kTurned, {.label_offset = 5});
}

// The scan of a NIfTI file of write_turned as ITK keeps it: towards left, back and head.
std::string metaimage_of(const std::string& nifti) {
  const auto stored = data::read_nifti(nifti);
  std::string matrix, offset;
  for (size_t axis = 0; axis < 3; ++axis) {
    for (size_t row = 0; row < 3; ++row) {
      matrix +=
          fmt::format(" {}", (row < 2 ? -1 : 1) * stored.affine[row][axis] / stored.spacing[axis]);
    }
    offset += fmt::format(" {}", (axis < 2 ? -1 : 1) * stored.affine[axis][3]);
  }
  auto text = fmt::format(
      "ObjectType = Image\nNDims = 3\nTransformMatrix ={}\nOffset ={}\nElementSpacing = {} {} {}\n"
      "DimSize = {} {} {}\nElementType = MET_FLOAT\nElementDataFile = LOCAL\n",
      matrix, offset, stored.spacing[0], stored.spacing[1], stored.spacing[2], stored.size.depth,
      stored.size.height, stored.size.width);
  text.append(reinterpret_cast<const char*>(stored.bytes.data()), stored.bytes.size());
  return text;
}

class PredictMasksTest : public ::testing::Test {
 protected:
  std::string volume_recipe() const {
    const auto data = fmt::format(
        "{{format: nifti, path: {}, images: 'images/*.nii.gz', masks: 'labels/*.nii.gz', "
        "num_classes: 2, label_offset: 5, class_names: [rest, bright], orientation: canonical, "
        "transforms: [{{name: scale_intensity}}",
        dir_.path());
    return fmt::format(
        "run: {{dir: {0}/run}}\n"
        "device: {{type: cpu, threads: 1}}\n"
        "model: {{name: unetr, num_classes: 2, feature_size: 4, encoder: {{img_size: [8, 8, 8], "
        "patch_size: 4,\n  in_chans: 1, embed_dim: 16, depth: 4, num_heads: 2, class_token: "
        "false}}}}\n"
        "task: {{name: segmentation}}\n"
        "data:\n  train: {1}, {{name: rand_spatial_crop, roi_size: 8}}]}}\n  val: {1}]}}\n"
        "  global_batch_size: 2\n  threads: 1\n"
        "optim: {{name: adamw, lr: 1e-2}}\n"
        "trainer: {{max_steps: 30}}\n",
        dir_.path(), data);
  }

  data::testing::TempDir dir_;
};

std::vector<int32_t> numbers_of(const std::string& path) {
  data::LabelMap labels;
  data::convert_labels(data::read_nifti(path), {.num_classes = 10}, labels);
  return labels.classes;
}

TEST_F(PredictMasksTest, WritesNiftiOnTheInputsVoxels) {
  for (int i = 0; i < 4; ++i) {
    write_turned(dir_.file(fmt::format("images/{}.nii.gz", i)),
                 dir_.file(fmt::format("labels/{}.nii.gz", i)), i);
  }
  const auto recipe = dir_.write("recipe.yaml", volume_recipe());
  const auto trained = run_fovea("train " + recipe);
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto out = dir_.file("out");
  const auto input = dir_.file("images/1.nii.gz");
  const auto predicted =
      run_fovea(fmt::format("predict {0}/run {1} --out {2} --json", dir_.path(), input, out));
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  const auto line = nlohmann::json::parse(predicted.output);
  EXPECT_EQ(line.at("classes")[1].at("class"), "bright");
  EXPECT_EQ(line.at("classes")[0].at("voxels").get<int64_t>() +
                line.at("classes")[1].at("voxels").get<int64_t>(),
            9 * 10 * 12);
  const auto path = out + "/1_mask.nii.gz";
  EXPECT_EQ(line.at("files")[0], path);
  EXPECT_EQ(data::read_nifti_header(path).affine, data::read_nifti_header(input).affine);
  // The mask lies on the labels as the file has them, not on the turned ones.
  const auto found = numbers_of(path), wanted = numbers_of(dir_.file("labels/1.nii.gz"));
  ASSERT_EQ(found.size(), wanted.size());
  size_t agree = 0;
  for (size_t i = 0; i < found.size(); ++i) agree += found[i] == wanted[i];
  EXPECT_GT(agree, found.size() * 9 / 10);
  // The same scan in another format has the same mask in the same place.
  dir_.write("scan.mha", metaimage_of(input));
  const auto other =
      run_fovea(fmt::format("predict {0}/run {0}/scan.mha --out {1}", dir_.path(), out));
  ASSERT_EQ(other.exit_code, 0) << other.output;
  EXPECT_EQ(data::read_nifti_header(out + "/scan_mask.nii.gz").affine,
            data::read_nifti_header(input).affine);
  EXPECT_EQ(numbers_of(out + "/scan_mask.nii.gz"), found);
  // Three planes of 10 x 12, 9 x 12 and 9 x 10 voxels in their proportions.
  const auto planes = line.at("files")[1].get<std::string>();
  EXPECT_EQ(planes, out + "/1_overlay.png");
  data::Image drawn;
  const auto png = read_file(planes, 1 << 20);
  data::decode_png({reinterpret_cast<const uint8_t*>(png.data()), png.size()}, drawn);
  EXPECT_GT(drawn.width, drawn.height);
  EXPECT_EQ(drawn.channels, 3);
  // A folder, and one file of it that is none.
  std::filesystem::create_directories(dir_.file("images/more"));
  std::filesystem::rename(dir_.file("images/3.nii.gz"), dir_.file("images/more/0.nii.gz"));
  dir_.write("images/more/bad.nii.gz", std::string("no volume"));
  const auto folder = run_fovea(
      fmt::format("predict {0}/run {0}/images --out {1} --json", dir_.path(), dir_.file("all")));
  EXPECT_EQ(folder.exit_code, static_cast<int>(ExitCode::kData)) << folder.output;
  EXPECT_THAT(folder.output, AllOf(HasSubstr("cannot be read: "), HasSubstr("more/bad.nii.gz"),
                                   HasSubstr("1 of 5 inputs cannot be read")));
  for (const char* mask : {"0", "1", "2", "more/0"}) {
    EXPECT_TRUE(std::filesystem::exists(fmt::format("{}/{}_mask.nii.gz", dir_.file("all"), mask)));
  }
  const auto twice = run_fovea(fmt::format("predict {0}/run {1} {1}", dir_.path(), input));
  EXPECT_EQ(twice.exit_code, static_cast<int>(ExitCode::kConfig));
  EXPECT_THAT(twice.output, HasSubstr("two inputs are named '1'"));
}

// Images 16 x 16: above dark and class 0, below red, class 1, and green, class 2, in turn.
std::string write_images(const data::testing::TempDir& dir) {
  constexpr int64_t kCount = 8, kImageSide = 16;
  std::vector<uint8_t> images, masks;
  for (int64_t i = 0; i < kCount; ++i) {
    for (int64_t y = 0; y < kImageSide; ++y) {
      for (int64_t x = 0; x < kImageSide; ++x) {
        const int64_t label = y < 4 + i % 3 ? 0 : ((x + 2 * i) % 16 < 8 ? 1 : 2);
        for (int64_t c = 0; c < 3; ++c) {
          images.push_back(static_cast<uint8_t>((label == c + 1 ? 220 : 20) + (x * y + i) % 9));
        }
        masks.push_back(static_cast<uint8_t>(label));
      }
    }
  }
  return dir.write("set.npz",
                   data::testing::stored_zip(
                       {{"images.npy", data::testing::npy_of_bytes("(8, 16, 16, 3)", images)},
                        {"masks.npy", data::testing::npy_of_bytes("(8, 16, 16)", masks)}}));
}

// The class of pixel i of a picture of 20 x 30.
int64_t picture_label(int64_t i) { return i / 30 < 6 ? 0 : (i % 30 < 15 ? 1 : 2); }

TEST_F(PredictMasksTest, WritesPngsOfImages) {
  const auto set = fmt::format(
      "{{format: npz, path: {}, masks: masks, num_classes: 3, transforms: [{{name: normalize, "
      "mean: 0.3, std: 0.3}}]}}",
      write_images(dir_));
  const auto recipe = dir_.write(
      "recipe.yaml",
      fmt::format("run: {{dir: {0}/run}}\n"
                  "device: {{type: cpu, threads: 1}}\n"
                  "model: {{name: unetr, num_classes: 3, feature_size: 4, encoder: {{img_size: 16, "
                  "patch_size: 8,\n  embed_dim: 16, depth: 4, num_heads: 2}}}}\n"
                  "task: {{name: segmentation}}\n"
                  "data: {{train: {1}, val: {1}, global_batch_size: 4, threads: 1}}\n"
                  "optim: {{name: adamw, lr: 1e-2}}\n"
                  "trainer: {{max_steps: 50}}\n",
                  dir_.path(), set));
  const auto trained = run_fovea("train " + recipe);
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  // Larger than the model's images: dark above, red on the left, green on the right.
  data::Image image{20, 30, 3, {}};
  for (int64_t i = 0; i < 20 * 30; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      image.pixels.push_back(picture_label(i) == c + 1 ? uint8_t{222} : uint8_t{22});
    }
  }
  const auto input = dir_.write("picture.png", data::encode_png(image));
  const auto out = dir_.file("out");
  const auto predicted =
      run_fovea(fmt::format("predict {0}/run {1} --out {2}", dir_.path(), input, out));
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  EXPECT_THAT(predicted.output, HasSubstr("picture_overlay.png"));
  const auto decode = [&](const std::string& name) {
    const auto bytes = read_file(out + "/" + name, 1 << 20);
    data::Image decoded;
    data::decode_png({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, decoded);
    return decoded;
  };
  const auto mask = decode("picture_mask.png");
  ASSERT_EQ(std::vector<int64_t>({mask.height, mask.width, mask.channels}),
            std::vector<int64_t>({20, 30, 1}));
  int64_t agree = 0;
  for (int64_t i = 0; i < 20 * 30; ++i) agree += mask.pixels[i] == picture_label(i);
  EXPECT_GT(agree, 20 * 30 * 7 / 10);
  const auto overlay = decode("picture_overlay.png");
  EXPECT_EQ(overlay.channels, 3);
  EXPECT_NE(overlay.pixels, image.pixels);
}

}  // namespace
}  // namespace fovea
