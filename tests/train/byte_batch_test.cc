// Batches of bytes, of which the device makes the loader's images.
#include <gtest/gtest.h>

#include <algorithm>

#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_erasing.h"
#include "fovea/data/transforms/mixup_config.h"
#include "fovea/train/session.h"
#include "tests/support/close.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

struct ByteSources {
  explicit ByteSources(const data::MixupConfig& mixup) {
    config.data.mixup = mixup;
    floats = make_loader(open_training_setup(config));
    auto setup = open_training_setup(config);
    EXPECT_TRUE(data::can_be_bytes(setup));
    setup.options.pixel_type = data::PixelType::kUint8;
    bytes = make_loader(std::move(setup));
  }

  data::testing::TempDir folder;
  TrainConfig config = testing::tiny_config(folder);
  DatasetWithLoader floats, bytes;
};

TEST(ByteBatchTest, ImagesAreTheLoadersToTheBit) {
  ByteSources sources({});
  for (int step = 0; step < 5; ++step) {  // the last one is smaller
    auto expected = sources.floats.loader->next(), found = sources.bytes.loader->next();
    EXPECT_TRUE(found.images.empty());
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto images = [&](data::Batch& batch) {
        return to_tensors(batch, 1, batch.size(), {.dtype = dtype}).images;
      };
      support::expect_same_bits(images(found), images(expected), "images");
    }
    sources.bytes.loader->recycle(std::move(found));
  }
}

// Partners that are in no micro-batch of their own come with it. Halves are added in another order
// or rounded once more, no more than that.
TEST(ByteBatchTest, MixedImagesAreTheLoadersForAnyMicroBatch) {
  for (const std::string mode : {"batch", "pair", "elem"}) {
    ByteSources sources({.mixup_alpha = 0.8, .cutmix_alpha = 1.0, .mode = mode});
    for (int step = 0; step < 6; ++step) {
      auto expected = sources.floats.loader->next(), found = sources.bytes.loader->next();
      const int64_t rows = found.size();
      for (const int64_t micro : {rows, int64_t{1}, int64_t{7}}) {
        for (int64_t begin = 0; begin < rows; begin += micro) {
          const auto end = std::min(rows, begin + micro);
          const auto actual = to_tensors(found, begin, end, {});
          const auto wanted = to_tensors(expected, begin, end, {});
          support::expect_close(actual.images, wanted.images, at::kFloat, mode);
          support::expect_same_bits(actual.labels, wanted.labels, mode);
        }
      }
    }
  }
}

TEST(ByteBatchTest, WhatWorksOnFloatsStaysFloats) {
  ByteSources sources({.mixup_alpha = 0.8});
  const auto fits = [&](auto&& change) {
    auto setup = open_training_setup(sources.config);
    change(setup);
    return data::can_be_bytes(setup);
  };
  EXPECT_TRUE(fits([](auto&) {}));
  EXPECT_FALSE(fits([](auto& setup) { setup.options.share = data::BatchShare::of_rank(0, 2); }));
  EXPECT_TRUE(fits([](auto& setup) {
    setup.options.share = data::BatchShare::of_rank(0, 2);
    setup.options.mixup->timm_local = true;
  }));
  EXPECT_FALSE(fits([](auto& setup) { setup.options.patching.emplace(); }));
  EXPECT_FALSE(fits([](auto& setup) { setup.options.packed_patch_size = 4; }));
  EXPECT_FALSE(fits([](auto& setup) {
    setup.transforms = {std::make_shared<const data::TransformPipeline>(
        std::vector<data::TransformConfig>{{data::NormalizeConfig{}},
                                           {data::RandomErasingConfig{}}},
        1)};
  }));
}

}  // namespace
}  // namespace fovea::train
