#include "fovea/data/batch/adaptive_patch_filler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "fovea/data/loader.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/mixup_config.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "tests/data/adaptive/way_back.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::message_of;

constexpr int64_t kPatchedSide = 32;

// Images or volumes with an edge at a place of their own, and that half as their mask.
class EdgeDataset : public Dataset {
 public:
  explicit EdgeDataset(SampleForm form, bool has_masks = false)
      : form_(form), has_masks_(has_masks) {}
  int64_t size() const override { return 11; }
  SampleForm form() const override { return form_; }
  bool has_masks() const override { return has_masks_; }
  void read(int64_t index, Sample& sample) const override {
    const VolumeSize size{form_ == SampleForm::kVolume ? 16 : 1, kPatchedSide, kPatchedSide};
    Image image{kPatchedSide, kPatchedSide, 1, {}};
    Volume volume{.channels = 1, .size = size, .values = {}};
    sample.mask = {size, {}};
    for (int64_t i = 0; i < size.voxels(); ++i) {
      const int64_t x = i % kPatchedSide, y = i / kPatchedSide % kPatchedSide;
      const bool is_inside = x > 3 + index && y > 5 + index && y < 25;
      image.pixels.push_back(is_inside ? 220 : static_cast<uint8_t>(20 + x / 4));
      volume.values.push_back(is_inside ? 0.9f : 0.1f);
      sample.mask.classes.push_back(is_inside ? 1 : 0);
    }
    if (form_ == SampleForm::kImage) {
      sample.become<Image>() = std::move(image);
    } else {
      sample.become<Volume>() = std::move(volume);
    }
    sample.label = index % 2;
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return 2; }
  std::string describe(int64_t index) const override { return fmt::format("edge[{}]", index); }

 private:
  SampleForm form_;
  bool has_masks_;
  std::vector<std::string> class_names_;
};

PatchingOptions patching(bool is_random = true) {
  return {.config = {.fixed_length = 30, .patch_size = 4, .smoothing = {1, 5}},
          .is_random = is_random};
}

SampleTransforms image_pipeline() {
  return std::make_shared<const TransformPipeline>(
      std::vector<TransformConfig>{{RandomCropConfig{.size = {kPatchedSide}, .padding = {2}}},
                                   {NormalizeConfig{.mean = {0.25}, .std = {0.5}}}},
      /*in_chans=*/1);
}

Loader patch_loader(LoaderOptions options, bool has_masks = false) {
  if (!options.patching) options.patching = patching();
  return Loader(std::make_shared<EdgeDataset>(SampleForm::kImage, has_masks), image_pipeline(),
                options);
}

TEST(AdaptivePatchFillerTest, TokensAreThoseOfThePatcherOnTheTransformedImage) {
  auto options = LoaderOptions{.global_batch_size = 4, .threads = 0};
  options.patching = patching(/*is_random=*/false);
  Loader loader = patch_loader(options);
  options.patching.reset();
  Loader plain(std::make_shared<EdgeDataset>(SampleForm::kImage), image_pipeline(), options);
  const Batch batch = loader.next(), expected = plain.next();
  ASSERT_EQ(batch.images.size(), expected.images.size());
  for (size_t i = 0; i < batch.images.size(); ++i) {
    ASSERT_NEAR(batch.images[i], expected.images[i], 1e-5) << i;
  }
  const AdaptivePatcher patcher(patching().config);
  PatchSequence sequence;
  PatchingScratch scratch;
  const int64_t pixels = kPatchedSide * kPatchedSide;
  for (int64_t row = 0; row < 4; ++row) {
    Image image{kPatchedSide, kPatchedSide, 1, {}};
    for (int64_t i = 0; i < pixels; ++i) {
      const float value = (expected.images[row * pixels + i] * 0.5f + 0.25f) * 255.0f;
      image.pixels.push_back(static_cast<uint8_t>(std::lround(value)));
    }
    patcher.patch(ImageView(image), nullptr, {}, sequence, scratch);
    const auto& patches = batch.patches;
    EXPECT_EQ(patches.trees[row].leaves, sequence.trees[0].leaves);
    for (int64_t i = 0; i < 30 * 16; ++i) {
      const bool is_padding = sequence.padding_mask[i / 16] != 0;
      const float wanted = is_padding ? 0.0f : (sequence.tokens[i] / 255.0f - 0.25f) / 0.5f;
      ASSERT_NEAR(patches.tokens[row * 30 * 16 + i], wanted, 1e-5) << i;
    }
    for (int64_t i = 0; i < 30; ++i) {
      EXPECT_EQ(patches.sizes[row * 30 + i], sequence.sizes[i]);
      EXPECT_EQ(patches.padding[row * 30 + i], sequence.padding_mask[i]);
      EXPECT_EQ(patches.centers[(row * 30 + i) * 2], sequence.centers[i * 2]);
    }
  }
}

TEST(AdaptivePatchFillerTest, DrawsDependOnSeedAndSampleAloneAndChangeFromEpochToEpoch) {
  Loader reference = patch_loader({.global_batch_size = 4, .threads = 0});
  Loader threaded = patch_loader({.global_batch_size = 4, .threads = 3});
  std::map<int64_t, std::vector<float>> first_epoch;
  int64_t num_changed = 0;
  for (int64_t i = 0; i < 6; ++i) {
    const Batch a = reference.next(), b = threaded.next();
    EXPECT_EQ(a.patches.tokens, b.patches.tokens);
    EXPECT_EQ(a.patches.sizes, b.patches.sizes);
    EXPECT_EQ(a.patches.centers, b.patches.centers);
    EXPECT_EQ(a.patches.padding, b.patches.padding);
    for (int64_t row = 0; row < a.size(); ++row) {
      const std::vector<float> sizes(a.patches.sizes.begin() + row * 30,
                                     a.patches.sizes.begin() + (row + 1) * 30);
      const auto [found, is_new] = first_epoch.emplace(a.indices[row], sizes);
      num_changed += !is_new && found->second != sizes;
    }
  }
  EXPECT_GT(num_changed, 0);
}

TEST(AdaptivePatchFillerTest, MasksFollowTheTreeAndComeBack) {
  auto options = LoaderOptions{.global_batch_size = 3, .threads = 0};
  options.patching = PatchingOptions{
      .config = {.fixed_length = 400, .patch_size = 4, .smoothing = {1}}, .is_random = false};
  Loader loader = patch_loader(options, /*has_masks=*/true);
  const Batch batch = loader.next();
  const int64_t pixels = kPatchedSide * kPatchedSide;
  const auto& labels = batch.patches.labels;
  ASSERT_EQ(labels.size(), 3u * 400 * 16);
  for (int64_t row = 0; row < 3; ++row) {
    const auto map = testing::labels_of_tokens(std::span(labels).subspan(row * 400 * 16, 400 * 16),
                                               batch.patches.trees[row], 4);
    const std::vector<int32_t> mask(batch.masks.begin() + row * pixels,
                                    batch.masks.begin() + (row + 1) * pixels);
    int64_t num_wrong = 0;
    for (int64_t i = 0; i < pixels; ++i) num_wrong += map.classes[i] != mask[i];
    EXPECT_LE(num_wrong, pixels / 50);  // leaves larger than a patch lose what is smaller
  }
}

TEST(AdaptivePatchFillerTest, VolumesGiveOctrees) {
  LoaderOptions options{.global_batch_size = 2, .threads = 0, .spatial_dims = 3};
  options.patching =
      PatchingOptions{.config = {.fixed_length = 64, .patch_size = 4, .smoothing = {0}}};
  Loader loader(
      std::make_shared<EdgeDataset>(SampleForm::kVolume),
      std::make_shared<const VolumePipeline>(std::vector<VolumeTransformConfig>{}, /*in_chans=*/1),
      options);
  const Batch batch = loader.next();
  EXPECT_EQ(batch.patches.dims, 3);
  EXPECT_EQ(batch.patches.tokens.size(), 2u * 64 * 64);
  EXPECT_EQ(batch.patches.centers.size(), 2u * 64 * 3);
  EXPECT_TRUE(batch.patches.trees[0].is_volume);
  EXPECT_GT(batch.patches.trees[0].leaves.size(), 8u);
}

TEST(AdaptivePatchFillerTest, RowsThatCountForNothingArePadding) {
  Loader loader = patch_loader({.global_batch_size = 11,
                                .threads = 0,
                                .share = BatchShare::of_rank(0, 2),
                                .pad_shares = true});
  const Batch batch = loader.next();
  ASSERT_EQ(batch.size(), 6);
  ASSERT_EQ(batch.weights.back(), 0.0f);
  const auto& padding = batch.patches.padding;
  EXPECT_THAT(std::vector<int>(padding.end() - 30, padding.end()), Each(1));
  EXPECT_TRUE(batch.patches.trees.back().leaves.empty());
}

TEST(AdaptivePatchFillerTest, RefusesWhatWouldChangeImagesAfterwards) {
  LoaderOptions options{.global_batch_size = 4, .threads = 0};
  options.mixup = MixupConfig{.mixup_alpha = 0.8};
  EXPECT_THAT(message_of<ConfigError>([&] { patch_loader(options); }),
              HasSubstr("adaptive_patching with mixup"));
  options = {.global_batch_size = 4, .threads = 0, .pixel_type = PixelType::kUint8};
  EXPECT_THAT(message_of<ConfigError>([&] { patch_loader(options); }),
              HasSubstr("batches of bytes"));
}

}  // namespace
}  // namespace fovea::data
