#include "fovea/data/random_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fovea/config/config.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/loader.h"
#include "fovea/data/loader_setup.h"
#include "fovea/data/transforms/any_transform.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct TransformListConfig {
  std::vector<AnyTransformConfig> transforms;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("transforms", self.transforms, "a list");
  }
};

AnyTransformConfig transform(const std::string& yaml) {
  return parse_config<TransformListConfig>("transforms: [" + yaml + "]", "test").transforms.at(0);
}

// Writes a few images and counts how many of them are other in the second epoch.
int64_t changed_samples(const AnyTransformConfig& transform) {
  const testing::TempDir folder;
  constexpr uint32_t kCount = 24, kSide = 16;
  RandomStream random = testing::test_stream();
  std::vector<uint8_t> pixels, labels(kCount, 0);
  for (uint32_t i = 0; i < kCount * kSide * kSide; ++i) {
    pixels.push_back(static_cast<uint8_t>(random.below(256)));
  }
  IdxConfig config;
  config.images = folder.write("images", testing::idx_bytes({kCount, kSide, kSide}, pixels));
  config.labels = folder.write("labels", testing::idx_bytes({kCount}, labels));
  config.num_classes = 2;
  config.transforms = {transform};
  DataConfig data;
  data.train = DataSectionConfig{config};
  auto opened = open_loader_setup(data, *data.train, {.in_chans = 1}, /*is_training=*/true);
  opened.options.shuffle = false;
  opened.options.global_batch_size = kCount;
  opened.options.drop_last = false;
  opened.options.threads = 0;
  Loader loader(opened.dataset, opened.transforms, opened.options);
  const Batch first = loader.next(), second = loader.next();
  const size_t values = first.images.size() / kCount;
  int64_t changed = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const auto begin = static_cast<int64_t>(i * values);
    const auto end = begin + static_cast<int64_t>(values);
    changed += !std::equal(first.images.begin() + begin, first.images.begin() + end,
                           second.images.begin() + begin);
  }
  return changed;
}

// The answer is held against what a loader gives: of gray images, as far as they show it.
TEST(RandomnessTest, SaysWhatALoaderShows) {
  for (const auto* yaml :
       {"{name: resize, size: 8}", "{name: center_crop, size: 8}", "{name: pad, padding: 2}",
        "{name: horizontal_flip, p: 0}", "{name: horizontal_flip, p: 1}", "{name: normalize}",
        "{name: eval_crop, size: 8}", "{name: resize_keep_ratio, size: 8}",
        "{name: center_crop_or_pad, size: 8}", "{name: solarize, p: 1}", "{name: posterize, p: 0}",
        "{name: color_jitter, p: 0}", "{name: gaussian_blur, p: 0}", "{name: random_erasing, p: 0}",
        "{name: resize_to_patches, patch_size: 2, max_patches: 9, min_patches: 9}"}) {
    EXPECT_FALSE(transform(yaml)->draws()) << yaml;
    EXPECT_EQ(changed_samples(transform(yaml)), 0) << yaml;
  }
  for (const auto* yaml :
       {"{name: random_resized_crop, size: 8}", "{name: random_crop, size: 8}",
        "{name: horizontal_flip, p: 0.5}", "{name: vertical_flip}",
        "{name: random_crop_or_pad, size: 8}", "{name: rkrc, size: 8}", "{name: rkrr, size: 8}",
        "{name: solarize, p: 0.5, threshold: 100}", "{name: posterize, p: 0.5}",
        "{name: gaussian_blur, p: 1}", "{name: color_jitter, brightness: 0.5}",
        "{name: resize_keep_ratio, size: 16, random_scale_prob: 0.5, random_scale_range: [0.5, 2]}",
        "{name: resize_to_patches, patch_size: 2, max_patches: 9, min_patches: 2}",
        "{name: rand_augment}", "{name: random_erasing, p: 0.5}"}) {
    EXPECT_TRUE(transform(yaml)->draws()) << yaml;
    const auto name = transform(yaml).name();
    if (name == "resize_keep_ratio" || name == "resize_to_patches") continue;  // sizes differ
    EXPECT_GT(changed_samples(transform(yaml)), 0) << yaml;
  }
}

TEST(RandomnessTest, VolumesFollowTheirProbability) {
  EXPECT_TRUE(transform("{name: rand_flip, prob: 0.5}")->draws());
  EXPECT_FALSE(transform("{name: rand_flip, prob: 0}")->draws());
  EXPECT_TRUE(transform("{name: rand_gaussian_noise, prob: 0.1}")->draws());
  EXPECT_FALSE(transform("{name: normalize_intensity}")->draws());
}

TEST(RandomnessTest, NamesEachPartOfATrainingSet) {
  DataConfig config;
  EXPECT_THAT(random_parts(config), IsEmpty());
  IdxConfig idx;
  idx.transforms = {transform("{name: resize, size: 8}"), transform("horizontal_flip"),
                    transform("normalize")};
  config.train = DataSectionConfig{idx};
  config.mixup.mixup_alpha = 0.8;
  config.adaptive_patching.emplace();
  EXPECT_THAT(random_parts(config), ElementsAre("horizontal_flip", "adaptive_patching", "mixup"));
  config.mixup.mixup_alpha = 0;
  config.adaptive_patching->smoothing = {1};
  config.adaptive_patching->canny_thresholds = {50, 51};
  EXPECT_THAT(random_parts(config), ElementsAre("horizontal_flip"));
  MixConfig mix;
  mix.sets.resize(2);
  mix.sets[1].source = DatasetConfig{idx};
  config.train = DataSectionConfig{mix};
  EXPECT_THAT(random_parts(config), ElementsAre("horizontal_flip"));
}

}  // namespace
}  // namespace fovea::data
