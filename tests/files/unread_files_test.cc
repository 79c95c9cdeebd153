#include "fovea/files/unread_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/data/datasets/catsdogs.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/datasets/tiny_imagenet.h"
#include "fovea/data/datasets/wds.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/image/png.h"
#include "tests/data/bad_input_support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::TempDir;

class UnreadFilesTest : public ::testing::Test {
 protected:
  // What opening the set logs.
  std::string log_of(const DatasetConfig& config) {
    const auto path = dir_.file("log.txt");
    std::filesystem::remove(path);
    {
      const LogFile log(path);
      build_dataset(config);
    }
    return read_file(path, 1 << 20);
  }
  void write_image(const std::string& name) { dir_.write(name, encode_png({1, 1, 1, {7}})); }
  TempDir dir_;
};

TEST_F(UnreadFilesTest, CountsKindsAndLeavesClutterOut) {
  UnreadFiles unread;
  for (const char* name : {".DS_Store", "a/Thumbs.db", "desktop.ini", "README", "notes.txt",
                           "meta.json", "labels.csv", "._a.jpg"}) {
    EXPECT_TRUE(is_clutter(name)) << name;
    unread.add(name);
  }
  EXPECT_EQ(unread.text(), "");
  unread.add("cat/1.HEIC");
  EXPECT_EQ(unread.text(), "1 file is not read (.heic 1), the first is cat/1.HEIC");
  unread.add("cat/2.heic");
  unread.add("cat/a.xcf");
  unread.add("cat/noending");
  unread.add("cat/\x1b[2J.\x1b[1m");
  EXPECT_THAT(unread.text(),
              AllOf(HasSubstr("5 files are not read (.heic 2, "), HasSubstr(".xcf 1"),
                    HasSubstr("no ending 1"), HasSubstr("\\x1b[1m 1"), Not(HasSubstr("\x1b"))));
}

TEST_F(UnreadFilesTest, ClassFoldersNameWhatIsLeftOut) {
  for (const char* name : {"in/cat/a.png", "in/dog/b.png", "in/stray.png"}) write_image(name);
  for (const char* name : {"in/cat/x.heic", "in/cat/deep/y.heic", "in/dog/z.xcf", "in/dog/.hidden",
                           "in/cat/Thumbs.db", "in/list.csv"}) {
    dir_.write(name, "x");
  }
  write_image("elsewhere/c.png");
  std::filesystem::create_directory_symlink(dir_.file("elsewhere"), dir_.file("in/dog/more"));
  const DatasetConfig config = {FolderConfig{.path = dir_.file("in")}};
  EXPECT_THAT(log_of(config),
              AllOf(HasSubstr("5 files are not read (.heic 2, .xcf 1, links to folders 1, outside "
                              "the class folders 1)"),
                    HasSubstr("convert them to " + image_kinds())));
  EXPECT_EQ(build_dataset(config)->size(), 2);
  dir_.write("in/fish/only.gif", "x");
  EXPECT_THAT(message_of([&] { build_dataset(config); }),
              AllOf(HasSubstr("\"fish\" has no image"), HasSubstr(".gif 1")));
}

TEST_F(UnreadFilesTest, SoDoOtherLayoutsAndVolumes) {
  write_image("pets/cat.0.png");
  dir_.write("pets/dog.0.tga", "x");
  EXPECT_THAT(log_of({CatsdogsConfig{.path = dir_.file("pets")}}), HasSubstr("(.tga 1)"));
  for (const char* name : {"tiny/train/n1/images/a.png", "tiny/val/images/v.png"})
    write_image(name);
  dir_.write("tiny/wnids.txt", "n1\n");
  dir_.write("tiny/val/val_annotations.txt", "v.png\tn1\n");
  dir_.write("tiny/train/n1/images/b.heic", "x");
  dir_.write("tiny/val/images/w.heic", "x");
  TinyImagenetConfig tiny;
  tiny.path = dir_.file("tiny");
  EXPECT_THAT(log_of({tiny}), HasSubstr("(.heic 1)"));
  tiny.split = "val";
  EXPECT_THAT(log_of({tiny}), HasSubstr("(.heic 1)"));
  write_nifti(dir_.file("scans/a.nii.gz"), testing::small_volume(0), affine_of_spacing({1, 1, 1}));
  dir_.write("scans/b.nrrd", "x");
  dir_.write("scans/a.json", "x");
  NiftiConfig nifti;
  nifti.path = dir_.file("scans");
  EXPECT_THAT(log_of({nifti}), AllOf(HasSubstr("(.nrrd 1)"), HasSubstr("convert them to *.nii*")));
  // Who names the files has chosen.
  nifti.images = {"*.nii.gz"};
  EXPECT_EQ(log_of({nifti}), "");
}

TEST_F(UnreadFilesTest, MembersOfTarsWithoutAnEnding) {
  const auto tar = testing::to_bytes(testing::tar_of({{"a.png", testing::image_file("png_gray")},
                                                      {"a.cls", "0"},
                                                      {"stray", "x"},
                                                      {".hidden", "x"},
                                                      {"__meta__/about", "x"}}));
  EXPECT_THAT(log_of({WdsConfig{.path = {dir_.write("a.tar", tar)}}}),
              HasSubstr("files without an ending belong to no sample: 1, the first is \"stray\""));
}

}  // namespace
}  // namespace fovea::data
