#include "fovea/data/datasets/find_datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/data/archive/packed_format.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/npz.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/volume/nifti.h"
#include "tests/data/stored_zip.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

class FindDatasetsTest : public ::testing::Test {
 protected:
  // "train: folder", or "folder" of a set without a name.
  std::vector<std::string> found(const std::string& name) const {
    std::vector<std::string> words;
    for (const auto& one : find_datasets(dir_.path() + "/" + name)) {
      words.push_back((one.name.empty() ? "" : one.name + ": ") + std::string(one.config.name()));
    }
    return words;
  }
  void write_image(const std::string& name) const {
    dir_.write(name, golden("file.png_gray").bytes);
  }
  void write_volume(const std::string& name) const {
    const Volume volume{1, {2, 2, 2}, {1, 1, 1}, std::vector<float>(8, 1)};
    write_nifti(dir_.file(name), volume, affine_of_spacing({1, 1, 1}));
  }

  TempDir dir_;
};

TEST_F(FindDatasetsTest, FilesByTheirEndingAndWhatIsInThem) {
  write_image("a.png");
  dir_.write("images.csv", std::string("path,label\na.png,1\n"));
  EXPECT_THAT(found("images.csv"), ElementsAre("list"));
  dir_.write("slides.csv", std::string("path,label\na.svs,1\n"));
  EXPECT_THAT(found("slides.csv"), ElementsAre("slides"));
  EXPECT_EQ(build_dataset(find_datasets(dir_.path() + "/images.csv").front().config)->size(), 1);
  write_volume("a.nii.gz");
  dir_.write("scans.jsonl", std::string("{\"path\": \"a.nii.gz\", \"label\": 1}\n"));
  EXPECT_THAT(found("scans.jsonl"), ElementsAre("nifti"));
  EXPECT_THAT(found("a.nii.gz"), ElementsAre("nifti"));
  for (const char* name : {"scans.jsonl", "a.nii.gz"}) {
    const auto set = build_dataset(find_datasets(dir_.path() + "/" + name).front().config);
    EXPECT_EQ(set->size(), 1) << name;
  }
  EXPECT_THAT(found("shard-{000..007}.tar"), ElementsAre("wds"));
  const auto bytes = testing::npy_of_bytes("(1, 2, 2)", {1, 2, 3, 4});
  const auto labels = testing::npy_of_bytes("(1,)", {0});
  dir_.write("arrays.npz", testing::stored_zip({{"x.npy", bytes}, {"y.npy", labels}}));
  const auto arrays = find_datasets(dir_.path() + "/arrays.npz").front().config;
  EXPECT_EQ(arrays.get_if<NpzConfig>()->images, "x");
  EXPECT_EQ(arrays.get_if<NpzConfig>()->labels, "y");
  dir_.write("mnist.npz",
             testing::stored_zip({{"train_images.npy", bytes}, {"test_images.npy", bytes}}));
  EXPECT_THAT(found("mnist.npz"), ElementsAre("train: medmnist", "test: medmnist"));
}

TEST_F(FindDatasetsTest, FoldersByWhatIsInThem) {
  dir_.write(std::string("packed/") + kPackedManifest, std::string("{}"));
  EXPECT_THAT(found("packed"), ElementsAre("packed"));
  dir_.write("tars/a.tar", std::string());
  EXPECT_THAT(found("tars"), ElementsAre("wds"));
  write_image("slides/a/plain.tif");
  dir_.write("slides/b/x.ndpi", std::string("x"));
  EXPECT_THAT(found("slides"), ElementsAre("slides"));
  write_volume("scans/a.nii");
  EXPECT_THAT(found("scans/"), ElementsAre("nifti"));
  for (const char* name : {"slicer/a.nrrd", "detached/a.nhdr", "detached/a.raw", "itk/a.mha"})
    dir_.write(name, std::string());
  EXPECT_THAT(found("slicer"), ElementsAre("nrrd"));
  EXPECT_THAT(found("detached"), ElementsAre("nrrd"));
  EXPECT_THAT(found("itk"), ElementsAre("metaimage"));
  EXPECT_THAT(found("itk/a.mha"), ElementsAre("metaimage"));
  dir_.write("series/one.dcm", std::string());
  const auto series = find_datasets(dir_.path() + "/series").front().config;
  EXPECT_THAT(series.get_if<DicomConfig>()->images, ElementsAre("series"));
  dir_.write("patients/1/one.dcm", std::string());
  EXPECT_THAT(found("patients"), ElementsAre("dicom"));
  EXPECT_TRUE(find_datasets(dir_.path() + "/patients")
                  .front()
                  .config.get_if<DicomConfig>()
                  ->images.empty());
  dir_.write("mnist/train-images-idx3-ubyte.gz", std::string());
  dir_.write("mnist/t10k-images-idx3-ubyte.gz", std::string());
  EXPECT_THAT(found("mnist"), ElementsAre("train: idx", "test: idx"));
  write_image("flat/cat/a.png");
  EXPECT_THAT(found("flat"), ElementsAre("folder"));
}

TEST_F(FindDatasetsTest, AFolderForEachSplitIsASetForEach) {
  write_image("set/train/cat/a.png");
  write_image("set/validation/cat/a.png");
  EXPECT_THAT(found("set"), ElementsAre("train: folder", "val: folder"));
  dir_.write(std::string("out/train/") + kPackedManifest, std::string("{}"));
  dir_.write(std::string("out/val/") + kPackedManifest, std::string("{}"));
  EXPECT_THAT(found("out"), ElementsAre("train: packed", "val: packed"));
  // Classes that are called so hold images.
  write_image("odd/train/a.png");
  write_image("odd/test/a.png");
  EXPECT_THAT(found("odd"), ElementsAre("folder"));
  write_image("more/train/cat/a.png");
  write_image("more/other/cat/a.png");
  EXPECT_THAT(found("more"), ElementsAre("folder"));
}

TEST_F(FindDatasetsTest, WhatIsNoneIsSaid) {
  EXPECT_THAT(message_of<DataError>([&] { found("none"); }), HasSubstr("no such file or folder"));
  dir_.write("a.docx", std::string("x"));
  EXPECT_THAT(message_of<DataError>([&] { found("a.docx"); }),
              HasSubstr("not the file of a data set"));
}

}  // namespace
}  // namespace fovea::data
