#include "fovea/data_tools/inspect/inspection_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fovea/data/image/decode.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "fovea/data_tools/inspect/inspection_text.h"
#include "tests/data_tools/inspect_support.h"
#include "tests/support/html_checker.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MemoryDataset;
using ::testing::Not;
using testing::plain_image;

// train: 4 cats, 2 dogs, no owl, sample 3 broken, pictures 10 and 20 of val too.
std::vector<InspectedSet> small_sets() {
  std::vector<Sample> train, val;
  for (int i = 0; i < 6; ++i) {
    train.push_back(plain_image(8, 8, 3, static_cast<uint8_t>(10 * i), i < 4 ? 0 : 1));
  }
  for (int i = 0; i < 3; ++i) {
    val.push_back(plain_image(8, 6 + i, 3, static_cast<uint8_t>(200 + i), 0));
  }
  val.push_back(train[1]);
  val.push_back(train[2]);
  const std::vector<std::string> names = {"cat <b>", "dog", "owl"};
  auto broken = std::make_shared<MemoryDataset>(train, names);
  broken->broken = {3};
  return {
      {.name = "train", .section = "train", .dataset = broken},
      {.name = "val", .section = "val", .dataset = std::make_shared<MemoryDataset>(val, names)}};
}

TransformedSets source_of(const std::vector<InspectedSet>& sets) {
  const std::vector<TransformConfig> list = {{RandomCropConfig{.size = {6}}}, {NormalizeConfig{}}};
  return {sets[0].dataset, {std::make_shared<const TransformPipeline>(list, 3)}, {}, {{}}};
}

Inspection small_inspection() {
  auto sets = small_sets();
  const auto source = source_of(sets);
  InspectionOptions options{.threads = 2, .rows = 6, .draws = 3, .trees = 2};
  options.tree = AdaptivePatchingConfig{.fixed_length = 7, .patch_size = 4};
  return inspect(std::move(sets), source, source, options);
}

TEST(InspectPageTest, TextNamesWhatIsThere) {
  const auto text = inspection_text(small_inspection());
  EXPECT_THAT(text, HasSubstr("6 images"));
  EXPECT_THAT(text,
              HasSubstr("largest cat <b> (3 samples), smallest owl (0 samples), 1 missing: owl"));
  EXPECT_THAT(text, HasSubstr("8 x 8, all"));
  EXPECT_THAT(text, HasSubstr("smallest 8 x 6, median 8 x 8, largest 8 x 8; 3 sizes"));
  EXPECT_THAT(text, HasSubstr("2 samples of val are in train too (cat <b> 2)"));
  EXPECT_THAT(text, HasSubstr("train: memory[1] (cat <b>) = val: memory[3] (cat <b>)"));
  EXPECT_THAT(text, HasSubstr("train: 1 sample cannot be read\n  [3] memory[3]: cut short"));
  EXPECT_THAT(text,
              HasSubstr("memory[3] is not among the augmented samples: memory[3]: cut short"));
  // Levels 0, 10, 20, 40, 50: mean 24, variance (100 + 400 + 1600 + 2500) / 5 - 24^2 = 344.
  EXPECT_THAT(text, HasSubstr("{name: normalize, mean: [0.0941, 0.0941, 0.0941], "
                              "std: [0.0727, 0.0727, 0.0727]}"));
}

TEST(InspectPageTest, PageIsWellFormedAndComplete) {
  const auto inspection = small_inspection();
  const auto html = inspection_page(inspection, "sets & <more>");
  const auto summary = support::check_html(html);
  EXPECT_EQ(summary.fault, "");
  for (const char* part :
       {"cat <b>", "sets & <more>", "{name: normalize, mean: [0.0941",
        "2 samples of val are in train too", "memory[3]: cut short", "1 missing: owl", "epoch 2"}) {
    EXPECT_THAT(summary.text, HasSubstr(part));
  }
  for (const char* none : {"cat <b>", "://"}) {  // no tag of the user's, no address
    EXPECT_EQ(html.find(none), std::string::npos) << none;
  }
  // 10 stored samples, 5 rows of 1 + 3 (the broken one is left out), 2 trees.
  EXPECT_EQ(summary.tags.at("img"), 10 + 5 * 4 + 2);
}

TEST(InspectPageTest, FilesAreWrittenAndOldOnesLeaveWithThem) {
  const testing::TempDir dir;
  const auto folder = dir.path() + "/new/place";
  auto inspection = small_inspection();
  const auto files = write_inspection(inspection, "sets", folder);
  ASSERT_EQ(files.size(), 4u);
  for (const auto& file : files) EXPECT_TRUE(fs::exists(file)) << file;
  const Image augmented = load_image(folder + "/augmented.png");
  EXPECT_EQ(augmented.width, 4 * (128 + 4) + 4);  // 8 pixels become 128
  EXPECT_EQ(augmented.height, 5 * (128 + 4) + 4);
  EXPECT_EQ(augmented.pixels, inspection.augmented->sheet.pixels);
  EXPECT_GT(load_image(folder + "/contact_sheet.png").width, 128);
  EXPECT_EQ(load_image(folder + "/tree.png").channels, 3);
  inspection.augmented.reset();
  EXPECT_EQ(write_inspection(inspection, "sets", folder).size(), 3u);
  EXPECT_FALSE(fs::exists(folder + "/augmented.png"));
  dir.write("file", "x");
  EXPECT_THROW(write_inspection(inspection, "sets", dir.path() + "/file/below"), Error);
}

TEST(InspectPageTest, VolumesWithMasks) {
  std::vector<Sample> samples = {testing::drawn_volume(2, {8, 9, 10}, 0),
                                 testing::drawn_volume(2, {8, 9, 10}, 1)};
  for (Sample& sample : samples) {
    sample.volume().spacing = {2, 1, 1};
    sample.mask = {{8, 9, 10}, std::vector<int32_t>(720, 0)};
    std::fill_n(sample.mask.classes.begin(), 100, 1);
  }
  auto dataset = std::make_shared<MemoryDataset>(samples, std::vector<std::string>{"air", "liver"},
                                                 SampleForm::kVolume);
  dataset->has_masks_ = true;
  const TransformedSets source = {
      dataset,
      {std::make_shared<const VolumePipeline>(
          std::vector<VolumeTransformConfig>{{RandFlipConfig{.prob = 0.5}}}, 2)},
      {},
      {SliceLayout::kMatrix}};
  InspectionOptions options{.rows = 2, .draws = 2, .trees = 1};
  options.tree = AdaptivePatchingConfig{.fixed_length = 15, .patch_size = 4};
  const auto inspection =
      inspect({{.name = "train", .section = "train", .dataset = dataset}}, source, source, options);
  const auto text = inspection_text(inspection);
  EXPECT_THAT(text, AllOf(HasSubstr("2 volumes"), HasSubstr("8 x 9 x 10, all"),
                          HasSubstr("2 x 1 x 1 mm"), HasSubstr("{name: normalize_intensity"),
                          HasSubstr("largest air (1,240 voxels), smallest liver (200 voxels)")));
  EXPECT_TRUE(inspection.notes.empty());
  EXPECT_EQ(inspection.augmented->pictures.size(), 6u);
  const auto summary = support::check_html(inspection_page(inspection, "volumes"));
  EXPECT_EQ(summary.fault, "");
  EXPECT_THAT(summary.text, HasSubstr("liver"));
}

TEST(InspectPageTest, ASetThatCannotBeReadAtAll) {
  auto dataset = std::make_shared<MemoryDataset>(std::vector<Sample>{plain_image(4, 4, 1, 0, 0)},
                                                 std::vector<std::string>{"a"});
  dataset->broken = {0};
  const auto inspection =
      inspect({{.name = "", .section = "", .dataset = dataset}}, std::nullopt, std::nullopt, {});
  EXPECT_TRUE(inspection.has_damaged());
  EXPECT_THAT(inspection_text(inspection), HasSubstr("data: 1 sample cannot be read"));
  EXPECT_EQ(support::check_html(inspection_page(inspection, "x")).fault, "");
  const testing::TempDir dir;
  EXPECT_EQ(write_inspection(inspection, "x", dir.path()).size(), 1u);
}

TEST(InspectPageTest, OfManyClassesTheEndsAreListed) {
  std::vector<Sample> samples;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) {
    names.push_back(fmt::format("kind{}", i));
    for (int k = 0; k <= i; ++k) samples.push_back(plain_image(2, 2, 1, 0, i));
  }
  const auto inspection = inspect({{.name = "train",
                                    .section = "train",
                                    .dataset = std::make_shared<MemoryDataset>(samples, names)}},
                                  std::nullopt, std::nullopt, {.samples = 0});
  const auto text = inspection_text(inspection, 6);
  EXPECT_THAT(text, AllOf(HasSubstr("kind99"), HasSubstr("kind97"), HasSubstr("kind2"),
                          HasSubstr("kind0"), Not(HasSubstr("kind50")), HasSubstr("\n...\n")));
}

}  // namespace
}  // namespace fovea::data
