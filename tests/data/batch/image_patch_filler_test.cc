#include "fovea/data/batch/image_patch_filler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "fovea/data/loader.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/resize_to_patches.h"
#include "fovea/data/transforms/mixup_config.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::message_of;

constexpr int64_t kSidePatch = 4;

// Gray images of different sizes, of which `broken` cannot be read.
class MixedSizes : public Dataset {
 public:
  explicit MixedSizes(bool has_masks = false, int64_t broken = -1)
      : has_masks_(has_masks), broken_(broken) {}
  int64_t size() const override { return 23; }
  bool has_masks() const override { return has_masks_; }
  void read(int64_t index, Sample& sample) const override {
    if (index == broken_) fail<DataError>("this one is damaged");
    sample.become<Image>() = {8 + index % 5 * 3, 6 + index % 7 * 4, 1, {}};
    for (int64_t i = 0; i < sample.image().height * sample.image().width; ++i) {
      sample.image().pixels.push_back(static_cast<uint8_t>(index * 7 + i * 3));
    }
    sample.label = index % 3;
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return 3; }
  std::string describe(int64_t index) const override { return fmt::format("mixed[{}]", index); }

 private:
  bool has_masks_;
  int64_t broken_;
  std::vector<std::string> class_names_;
};

std::shared_ptr<const TransformPipeline> packing_pipeline(
    std::optional<int64_t> min_patches = {}, std::vector<TransformConfig> behind = {}) {
  const ResizeToPatchesConfig resize{
      .patch_size = kSidePatch, .max_patches = 12, .min_patches = min_patches};
  std::vector<TransformConfig> transforms = {{resize}};
  transforms.insert(transforms.end(), behind.begin(), behind.end());
  transforms.push_back({NormalizeConfig{.mean = {0.25}, .std = {0.5}}});
  return std::make_shared<const TransformPipeline>(transforms, /*in_chans=*/1);
}

Loader packing_loader(LoaderOptions options, const SampleTransforms& transforms,
                      bool has_masks = false, int64_t broken = -1) {
  options.packed_patch_size = options.packed_patch_size.value_or(kSidePatch);
  return Loader(std::make_shared<MixedSizes>(has_masks, broken), transforms, options);
}

// A row's patches, and how many rows and columns they are.
struct Packed {
  std::vector<float> values;
  int64_t rows = 0, columns = 0;
  bool operator==(const Packed&) const = default;
};

Packed packed_row(const Batch& batch, int64_t row) {
  const auto& patches = batch.image_patches;
  Packed result{{}, patches.grids[2 * row], patches.grids[2 * row + 1]};
  const int64_t width = batch.image_shape[1] * patches.patch_size * patches.patch_size;
  const auto* first = patches.values.data() + row * patches.max_patches * width;
  result.values.assign(first, first + result.rows * result.columns * width);
  return result;
}

TEST(ImagePatchFillerTest, PatchesAreThoseOfTheTransformedImage) {
  const auto pipeline = packing_pipeline();
  Loader loader = packing_loader({.global_batch_size = 23, .threads = 0}, pipeline);
  const Batch batch = loader.next();
  EXPECT_EQ(batch.image_shape, (std::vector<int64_t>{23, 1, 0, 0}));
  EXPECT_TRUE(batch.images.empty());
  std::set<std::pair<int64_t, int64_t>> grids;
  for (int64_t row = 0; row < batch.size(); ++row) {
    Sample sample;
    MixedSizes().read(batch.indices[row], sample);
    std::vector<float> pixels;
    TransformScratch scratch;
    const auto size = pipeline->apply_any_size(
        ImageView(sample.image()), augmentation_stream(42, 0, batch.indices[row]), pixels, scratch);
    const auto found = packed_row(batch, row);
    ASSERT_EQ((ImageSize{found.rows * kSidePatch, found.columns * kSidePatch}), size);
    EXPECT_EQ(batch.labels[row], sample.label);
    grids.insert({found.rows, found.columns});
    for (size_t i = 0; i < found.values.size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      const int64_t patch = place / 16, y = place % 16 / 4, x = place % 4;
      const int64_t at =
          (patch / found.columns * 4 + y) * size.width + patch % found.columns * 4 + x;
      ASSERT_EQ(found.values[i], pixels[at]) << "row " << row << ", value " << i;
    }
  }
  EXPECT_GT(grids.size(), 5U);
}

TEST(ImagePatchFillerTest, ChannelsOfAPatchStandOneBehindAnother) {
  std::vector<float> values(2 * 2 * 4 * 8);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto batch = image_patches_of(values, {2, 2, 4, 8}, 4);
  EXPECT_EQ(batch.image_patches.grids, (std::vector<int64_t>{1, 2, 1, 2}));
  const auto second = packed_row(batch, 1);
  ASSERT_EQ(second.values.size(), 64U);
  EXPECT_EQ(second.values[0], 64);        // image 1, channel 0, row 0, column 0
  EXPECT_EQ(second.values[5], 64 + 9);    // row 1, column 1
  EXPECT_EQ(second.values[16], 64 + 32);  // channel 1
  EXPECT_EQ(second.values[32], 64 + 4);   // the patch to the right
}

TEST(ImagePatchFillerTest, DependsOnSeedAndSampleAlone) {
  const auto pipeline = packing_pipeline(/*min_patches=*/2, {{HorizontalFlipConfig{}}});
  std::map<std::pair<int64_t, int64_t>, Packed> expected;  // by epoch and sample
  Loader reference = packing_loader({.global_batch_size = 5, .threads = 0}, pipeline);
  int64_t num_changed = 0;
  for (int64_t i = 0; i < 10; ++i) {
    const Batch batch = reference.next();
    for (int64_t row = 0; row < batch.size(); ++row) {
      const auto index = batch.indices[row];
      expected[{batch.epoch, index}] = packed_row(batch, row);
      if (batch.epoch == 1) num_changed += expected[{0, index}] != expected[{1, index}];
    }
  }
  EXPECT_GT(num_changed, 10);
  for (const int64_t shards : {1, 2}) {
    for (const int64_t threads : {1, 3}) {
      for (int64_t shard = 0; shard < shards; ++shard) {
        Loader loader = packing_loader({.global_batch_size = 7,
                                        .threads = threads,
                                        .share = BatchShare::of_rank(shard, shards)},
                                       pipeline);
        for (int64_t i = 0; i < 8; ++i) {
          const Batch batch = loader.next();
          for (int64_t row = 0; row < batch.size(); ++row) {
            EXPECT_EQ(packed_row(batch, row), expected.at({batch.epoch, batch.indices[row]}));
          }
        }
      }
    }
  }
}

TEST(ImagePatchFillerTest, ARowThatCountsForNothingIsOnePatchOfZeros) {
  LoaderOptions options{.global_batch_size = 23, .threads = 0};
  options.bad_samples = {.policy = BadSamplePolicy::kSkip, .budget = 3};
  Loader loader = packing_loader(options, packing_pipeline(), false, /*broken=*/9);
  const Batch batch = loader.next();
  const auto row = std::find(batch.weights.begin(), batch.weights.end(), 0.0f);
  ASSERT_NE(row, batch.weights.end());
  const auto cleared = packed_row(batch, row - batch.weights.begin());
  EXPECT_EQ(cleared.rows, 1);
  EXPECT_EQ(cleared.columns, 1);
  EXPECT_THAT(cleared.values, Each(0.0f));
}

TEST(ImagePatchFillerTest, RefusesWhatDoesNotGiveWholePatches) {
  const auto fault_of = [](const SampleTransforms& transforms, LoaderOptions options = {},
                           bool has_masks = false) {
    return message_of<ConfigError>([&] { packing_loader(options, transforms, has_masks); });
  };
  const auto plain = std::make_shared<const TransformPipeline>(
      std::vector<TransformConfig>{{ResizeConfig{.size = {8, 8}}}}, 1);
  EXPECT_THAT(fault_of(plain), HasSubstr("name: resize_to_patches, patch_size: 4"));
  EXPECT_THAT(fault_of(packing_pipeline({}, {{CenterCropConfig{.size = {8}}}})),
              HasSubstr("only what keeps sizes"));
  EXPECT_THAT(fault_of(packing_pipeline(), {.packed_patch_size = 8}),
              HasSubstr("give patches of 4"));
  EXPECT_THAT(fault_of(packing_pipeline(), {.pixel_type = PixelType::kUint8}), HasSubstr("floats"));
  EXPECT_THAT(fault_of(packing_pipeline(), {.mixup = MixupConfig{.mixup_alpha = 1}}),
              HasSubstr("different sizes"));
  EXPECT_THAT(fault_of(packing_pipeline(), {}, /*has_masks=*/true), HasSubstr("masks"));
}

TEST(ImagePatchFillerTest, ABatchOfOneSizeRefusesDrawnSizes) {
  const auto make = [] {
    return Loader(std::make_shared<MixedSizes>(), packing_pipeline(/*min_patches=*/2), {});
  };
  EXPECT_THAT(message_of<ConfigError>(make), HasSubstr("patching: packed"));
}

}  // namespace
}  // namespace fovea::data
