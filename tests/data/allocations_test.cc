// That a loader in its steady state asks for no memory: the operators new of this program count.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/loader.h"
#include "fovea/data/transforms/image/auto_augment.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/color_jitter.h"
#include "fovea/data/transforms/image/gaussian_blur.h"
#include "fovea/data/transforms/image/grayscale.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/rand_augment.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/image/random_erasing.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/rkrc_rkrr.h"
#include "fovea/data_tools/pack/pack.h"
#include "tests/data/jpeg_writer.h"
#include "tests/data/support.h"

static thread_local int64_t num_news = 0;  // of this thread

// Not inlined: the compiler would take free() for a partner that does not fit.
#define FOVEA_COUNTED __attribute__((noinline))

FOVEA_COUNTED void* operator new(std::size_t bytes) {
  ++num_news;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
FOVEA_COUNTED void* operator new[](std::size_t bytes) { return operator new(bytes); }
// std::stable_sort asks this one, and hands the memory to the plain delete.
FOVEA_COUNTED void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++num_news;
  return std::malloc(bytes > 0 ? bytes : 1);
}
FOVEA_COUNTED void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, tag);
}
FOVEA_COUNTED void operator delete(void* memory) noexcept { std::free(memory); }
FOVEA_COUNTED void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
FOVEA_COUNTED void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
FOVEA_COUNTED void operator delete[](void* memory) noexcept { std::free(memory); }
FOVEA_COUNTED void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
FOVEA_COUNTED void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace fovea::data {
namespace {

using testing::TempDir;

constexpr int64_t kBatch = 8;
constexpr int64_t kEpochs = 4;  // of 24 samples

struct TransformList {
  const char* name;
  std::vector<TransformConfig> transforms;
  PixelType pixel_type = PixelType::kFloat32;
};

AutoAugmentConfig auto_augment(const std::string& policy) {
  AutoAugmentConfig config;
  config.policy = policy;
  return config;
}

const RandomResizedCropConfig kCrop = {.size = {32}};

std::vector<TransformList> transform_lists() {
  const TransformConfig crop{kCrop}, flip{HorizontalFlipConfig{}}, normalize{NormalizeConfig{}};
  return {
      {"float32", {crop, flip, normalize}},
      {"uint8", {crop, flip, normalize}, PixelType::kUint8},
      {"validation", {{ResizeConfig{.size = {40}}}, {CenterCropConfig{.size = {32}}}, normalize}},
      {"rand_augment_timm",
       {crop, flip, {auto_augment("rand-m9-mstd0.5-inc1")}, normalize, {RandomErasingConfig{}}}},
      {"auto_augment", {crop, flip, {auto_augment("original")}, normalize}},
      {"three_augment", {crop, flip, {auto_augment("3a")}, {ColorJitterConfig{}}, normalize}},
      {"aug_mix", {crop, flip, {auto_augment("augmix-m3-w3")}, normalize}},
      {"rand_augment", {crop, {RandAugmentConfig{}}, normalize}},
      {"simclr",
       {crop, flip, {ColorJitterConfig{}}, {GrayscaleConfig{}}, {GaussianBlurConfig{}}, normalize}},
      {"simple_random_crop", {{RkrcConfig{.size = {32}}}, flip, normalize}},
      {"cifar",
       {{ResizeConfig{.size = {32, 32}}},
        {RandomCropConfig{.size = {32}, .padding = {4}}},
        flip,
        normalize}},
  };
}

class AllocationsTest : public ::testing::Test {
 protected:
  AllocationsTest() {
    for (int i = 0; i < 24; ++i) {
      const auto bytes = testing::write_jpeg({60 + i, 90 - i}, {.channels = i % 6 == 5 ? 1 : 3});
      dir_.write(fmt::format("in/{}/{}.jpg", i % 2 == 0 ? "ant" : "bee", i), bytes);
    }
    files_ = build_folder_dataset({.path = dir_.path() + "/in"});
  }

  std::shared_ptr<const Dataset> packed(bool is_raw) const {
    PackOptions options;
    options.out = dir_.path() + (is_raw ? "/raw" : "/files");
    options.raw = is_raw;
    options.threads = 1;
    pack_dataset(*files_, options);
    return build_packed_dataset({.path = options.out});
  }

  // Of the third time through the same samples, with the buffers that the first two have left:
  // results alternate between two of them, so that each sample has to have been in both.
  static int64_t news_of(const std::shared_ptr<const Dataset>& dataset, const TransformList& list) {
    Loader loader(
        dataset, std::make_shared<TransformPipeline>(list.transforms, 3),
        {.global_batch_size = kBatch, .threads = 0, .prefetch = 1, .pixel_type = list.pixel_type});
    const auto run = [&] {
      loader.seek(0);
      const int64_t before = num_news;
      for (int64_t i = 0; i < kEpochs * loader.batches_per_epoch(); ++i) {
        loader.recycle(loader.next());
      }
      return num_news - before;
    };
    run();
    run();
    return run();
  }

  TempDir dir_;
  std::shared_ptr<const Dataset> files_;
};

TEST_F(AllocationsTest, TheCountWorks) {
  const int64_t before = num_news;
  const auto memory = std::make_unique<int64_t>(1);
  EXPECT_EQ(num_news - before, 1);
}

TEST_F(AllocationsTest, AFolderOfFilesNeedsNone) {
  for (const auto& list : transform_lists()) EXPECT_EQ(news_of(files_, list), 0) << list.name;
}

TEST_F(AllocationsTest, PackedSamplesNeedNone) {
  for (const bool is_raw : {false, true}) {
    const auto dataset = packed(is_raw);
    for (const auto& list : transform_lists()) {
      EXPECT_EQ(news_of(dataset, list), 0) << list.name << (is_raw ? ", raw" : "");
    }
  }
}

TEST_F(AllocationsTest, TimingStagesNeedsNone) {
  Loader loader(files_, std::make_shared<TransformPipeline>(transform_lists()[0].transforms, 3),
                {.global_batch_size = kBatch, .threads = 0, .prefetch = 1});
  loader.time_stages(true);
  const auto run = [&] {
    loader.seek(0);
    const int64_t before = num_news;
    for (int i = 0; i < 6; ++i) loader.recycle(loader.next());
    loader.take_stage_times();
    return num_news - before;
  };
  run();
  EXPECT_EQ(run(), 0);
}

}  // namespace
}  // namespace fovea::data
