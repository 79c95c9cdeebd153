#include "fovea/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::FakeDataset;
using ::testing::HasSubstr;
using testing::message_of;

// Random crop and flip, so that augmentation takes part in every comparison.
std::shared_ptr<const TransformPipeline> augmenting_pipeline() {
  return std::make_shared<TransformPipeline>(
      std::vector<TransformConfig>{{RandomCropConfig{.size = {8}, .padding = {2}}},
                                   {HorizontalFlipConfig{}},
                                   {NormalizeConfig{}}},
      /*in_chans=*/1);
}

Loader make_loader(const LoaderOptions& options, int64_t size = 53,
                   std::vector<int64_t> broken = {}) {
  return Loader(std::make_shared<FakeDataset>(size, 8, std::move(broken)), augmenting_pipeline(),
                options);
}

std::vector<Batch> take(Loader& loader, int64_t count) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < count; ++i) batches.push_back(loader.next());
  return batches;
}

void expect_same(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.image_shape, b.image_shape);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.weights, b.weights);
  ASSERT_EQ(a.images.size(), b.images.size());
  EXPECT_EQ(std::memcmp(a.images.data(), b.images.data(), a.images.size() * sizeof(float)), 0);
}

// Also where two sets leave two smaller batches at the end of an epoch.
TEST(LoaderTest, NumbersOfBatchesGiveTheirPositions) {
  LoaderOptions options = {.global_batch_size = 10, .threads = 0};
  Loader one = make_loader(options);
  options.mix = {.mode = MixMode::kExact, .set_sizes = {24, 29}};
  Loader two(std::make_shared<FakeDataset>(53, 8),
             std::vector<SampleTransforms>{augmenting_pipeline(), augmenting_pipeline()}, options);
  for (auto* loader : {&one, &two}) {
    const auto batches = take(*loader, 17);
    for (size_t i = 0; i < batches.size(); ++i)
      EXPECT_EQ(loader->position_of(static_cast<int64_t>(i)), batches[i].position) << i;
  }
}

TEST(LoaderTest, OutputDoesNotDependOnThreadsOrPrefetch) {
  Loader reference = make_loader({.global_batch_size = 10, .threads = 0});
  const auto expected = take(reference, 17);
  for (const int64_t threads : {1, 2, 5}) {
    for (const int64_t prefetch : {1, 4}) {
      Loader loader =
          make_loader({.global_batch_size = 10, .threads = threads, .prefetch = prefetch});
      const auto batches = take(loader, 17);
      for (size_t i = 0; i < batches.size(); ++i) {
        SCOPED_TRACE(fmt::format("threads {} prefetch {} batch {}", threads, prefetch, i));
        expect_same(batches[i], expected[i]);
      }
    }
  }
}

TEST(LoaderTest, AnEpochHoldsEverySampleOnce) {
  Loader loader = make_loader({.global_batch_size = 10});
  EXPECT_EQ(loader.samples_per_epoch(), 53);
  EXPECT_EQ(loader.batches_per_epoch(), 6);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (const Batch& batch : take(loader, 6)) {
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(batch.position, epoch * 53 + static_cast<int64_t>(seen.size()));
      for (size_t row = 0; row < batch.indices.size(); ++row) {
        EXPECT_EQ(batch.labels[row], batch.indices[row] % 10);
        seen.insert(batch.indices[row]);
      }
    }
    EXPECT_EQ(seen.size(), 53u);
  }
}

TEST(LoaderTest, DropLastLeavesOutTheRest) {
  Loader loader = make_loader({.global_batch_size = 10, .drop_last = true});
  EXPECT_EQ(loader.samples_per_epoch(), 50);
  EXPECT_EQ(loader.batches_per_epoch(), 5);
  const auto batches = take(loader, 6);
  for (const Batch& batch : batches) EXPECT_EQ(batch.size(), 10);
  EXPECT_EQ(batches[5].epoch, 1);
  EXPECT_EQ(batches[5].position, 50);
}

TEST(LoaderTest, EpochsDifferInOrderAndAugmentation) {
  Loader shuffled = make_loader({.global_batch_size = 53});
  const auto batches = take(shuffled, 2);
  EXPECT_NE(batches[0].indices, batches[1].indices);
  Loader ordered = make_loader({.global_batch_size = 53, .shuffle = false});
  const auto in_order = take(ordered, 2);
  EXPECT_EQ(in_order[0].indices, in_order[1].indices);
  EXPECT_TRUE(std::is_sorted(in_order[0].indices.begin(), in_order[0].indices.end()));
  EXPECT_NE(in_order[0].images, in_order[1].images);  // the same sample, cropped elsewhere
}

TEST(LoaderTest, SeekEqualsRunningThere) {
  Loader runner = make_loader({.global_batch_size = 10});
  const auto expected = take(runner, 12);
  for (const size_t start : {0u, 3u, 5u, 6u, 8u}) {
    Loader loader = make_loader({.global_batch_size = 10, .threads = 3});
    loader.next();  // work is under way when the loader is moved
    loader.seek(expected[start].position);
    for (size_t i = start; i < expected.size(); ++i) expect_same(loader.next(), expected[i]);
  }
}

// Whatever is prepared when it comes: the batches are those of a loader that knew from the start.
TEST(LoaderTest, TakesAnotherBatchSizeWhileItRuns) {
  const LoaderOptions sizes = {.global_batch_size = 10, .batch_schedule = {{30, 7}, {95, 16}}};
  for (const int64_t threads : {0, 1, 3}) {
    for (const int64_t prefetch : {1, 4}) {
      SCOPED_TRACE(fmt::format("threads {} prefetch {}", threads, prefetch));
      auto options = sizes;
      options.threads = threads;
      options.prefetch = prefetch;
      Loader reference = make_loader(options);
      options.batch_schedule.clear();
      Loader loader = make_loader(options);
      for (int64_t i = 0; i < 20; ++i) {
        if (i == 2) {
          // For the batch after the next, as soon as it is there and from one that is under way.
          EXPECT_THROW(loader.append({15, 7}), ConfigError);
          loader.append({30, 7});
        }
        const auto batch = loader.next();
        expect_same(batch, reference.next());
        if (batch.position + batch.global_size == 95) loader.append({95, 16});
      }
      EXPECT_THAT(message_of<ConfigError>([&] {
                    loader.append({53 * 2, 8});
                  }),
                  HasSubstr("are handed out"));
      // The state is the position and the schedule.
      loader.seek(30);
      reference.seek(30);
      for (int64_t i = 0; i < 15; ++i) expect_same(loader.next(), reference.next());
    }
  }
}

TEST(LoaderTest, SeekRefusesAPlaceInsideABatch) {
  Loader loader = make_loader({.global_batch_size = 10});
  EXPECT_THAT(message_of<Error>([&] { loader.seek(15); }), HasSubstr("position=15"));
  EXPECT_THROW(loader.seek(-10), Error);
  loader.seek(53);  // the short batch before it counts
}

TEST(LoaderTest, SharesTogetherAreTheOneProcessBatch) {
  for (const int64_t count : {2, 3, 7}) {
    Loader whole = make_loader({.global_batch_size = 10});
    std::vector<Loader> shards;
    for (int64_t index = 0; index < count; ++index) {
      shards.push_back(
          make_loader({.global_batch_size = 10, .share = BatchShare::of_rank(index, count)}));
    }
    for (int64_t step = 0; step < 7; ++step) {
      const Batch expected = whole.next();
      std::map<int64_t, std::pair<int64_t, std::vector<float>>> rows;
      for (int64_t index = 0; index < count; ++index) {
        const Batch part = shards[index].next();
        EXPECT_EQ(part.position, expected.position);
        EXPECT_EQ(part.image_shape[0], part.size());
        for (int64_t i = 0; i < part.size(); ++i) {
          EXPECT_EQ(part.rows[i], part.share.begin(expected.size()) + i);
          const auto first = part.images.begin() + i * 64;
          rows[part.rows[i]] = {part.indices[i], std::vector<float>(first, first + 64)};
        }
      }
      ASSERT_EQ(static_cast<int64_t>(rows.size()), expected.size());
      for (const auto& [row, sample] : rows) {
        EXPECT_EQ(sample.first, expected.indices[row]);
        EXPECT_TRUE(std::equal(sample.second.begin(), sample.second.end(),
                               expected.images.begin() + row * 64));
      }
    }
  }
}

// For evaluation: each share gets as many rows of each batch, the missing ones with weight 0, and
// the rows that count are the data set, each sample once.
TEST(LoaderTest, PaddedSharesAskEveryProcessForTheSame) {
  for (const int64_t count : {1, 2, 3, 4, 7}) {
    for (const int64_t threads : {0, 1, 4}) {
      std::multiset<int64_t> seen;
      std::vector<Loader> shards;
      for (int64_t index = 0; index < count; ++index) {
        shards.push_back(make_loader({.global_batch_size = 10,
                                      .shuffle = false,
                                      .threads = threads,
                                      .share = BatchShare::of_rank(index, count),
                                      .pad_shares = true}));
      }
      for (int64_t step = 0; step < 6; ++step) {
        for (Loader& shard : shards) {
          const Batch batch = shard.next();
          ASSERT_EQ(batch.size(), ((step == 5 ? 3 : 10) + count - 1) / count);
          ASSERT_EQ(batch.weights.size(), batch.indices.size());
          for (int64_t row = 0; row < batch.size(); ++row) {
            if (batch.weights[row] == 1.0f) {
              seen.insert(batch.indices[row]);
              continue;
            }
            EXPECT_EQ(batch.weights[row], 0.0f);
            EXPECT_EQ(batch.indices[row], -1);
            EXPECT_EQ(batch.labels[row], 0);
            const auto first = batch.images.begin() + row * 64;
            EXPECT_EQ(std::count(first, first + 64, 0.0f), 64);
          }
        }
      }
      ASSERT_EQ(seen.size(), 53u);
      EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 53u);
    }
  }
}

TEST(LoaderTest, WithoutPaddingEveryRowCounts) {
  Loader loader = make_loader({.global_batch_size = 10, .share = BatchShare::of_rank(1, 3)});
  for (const Batch& batch : take(loader, 6)) {
    EXPECT_EQ(batch.weights, std::vector<float>(batch.indices.size(), 1.0f));
    EXPECT_EQ(batch.set, 0);
  }
}

TEST(LoaderTest, AWorkersErrorNamesTheSampleAndBatchesBeforeItArrive) {
  for (const int64_t threads : {0, 1, 4}) {
    Loader loader = make_loader({.global_batch_size = 10, .shuffle = false, .threads = threads}, 53,
                                /*broken=*/{27, 24, 31});
    EXPECT_EQ(loader.next().position, 0);
    EXPECT_EQ(loader.next().position, 10);
    // 24 is the first damaged row, whichever thread was faster; and the error stays until seek.
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(message_of<DataError>([&] { loader.next(); }), "fake[24]: this one is damaged");
    }
    loader.seek(40);
    EXPECT_EQ(loader.next().position, 40);
  }
}

// One image of another size than the others, so that a batch cannot hold them without a resize.
class OneOfAnotherSize : public FakeDataset {
 public:
  OneOfAnotherSize() : FakeDataset(8, 8) {}
  void read(int64_t index, Sample& sample) const override {
    FakeDataset::read(index, sample);
    if (index == 5) sample.become<Image>() = {4, 6, 1, std::vector<uint8_t>(24)};
  }
};

TEST(LoaderTest, NamesTheImageThatDiffersInSize) {
  const auto pipeline = std::make_shared<TransformPipeline>(std::vector<TransformConfig>{}, 1);
  Loader loader(std::make_shared<OneOfAnotherSize>(), pipeline,
                {.global_batch_size = 8, .threads = 0});
  const std::string message = message_of<DataError>([&] { loader.next(); });
  EXPECT_THAT(message, HasSubstr("fake[5]: an image of 4x6 pixels"));
  EXPECT_THAT(message, HasSubstr("fake[0] gave 8x8"));
}

TEST(LoaderTest, RefusesSettingsThatGiveNoBatch) {
  EXPECT_THAT(
      message_of<ConfigError>([] { make_loader({.global_batch_size = 64, .drop_last = true}); }),
      HasSubstr("global_batch_size=64"));
  EXPECT_THROW(make_loader({.global_batch_size = 0}), ConfigError);
  EXPECT_THROW(make_loader({.share = {2, 3, 2}}), Error);
  EXPECT_THROW(make_loader({}, /*size=*/0), DataError);
}

TEST(LoaderTest, StopsWhileWorkersAreBusy) {
  for (int i = 0; i < 20; ++i) {
    Loader loader = make_loader({.global_batch_size = 4, .threads = 4, .prefetch = 2});
    if (i % 2 == 0) loader.next();
  }
  Loader failing = make_loader({.global_batch_size = 4, .threads = 4}, 53, {0, 1, 2, 3});
  EXPECT_ANY_THROW(for (int i = 0; i < 20; ++i) failing.next());
}

TEST(LoaderTest, ReusesBuffersThatComeBack) {
  Loader loader =
      make_loader({.global_batch_size = 10, .drop_last = true, .threads = 0, .prefetch = 1});
  Batch first = loader.next();
  const float* buffer = first.images.data();
  loader.recycle(std::move(first));
  EXPECT_EQ(loader.next().images.data(), buffer);
}

TEST(LoaderTest, CountsTheTimeSpentWaiting) {
  Loader loader = make_loader({.global_batch_size = 10, .threads = 0});
  loader.next();
  EXPECT_GT(loader.take_wait_seconds(), 0.0);
  EXPECT_EQ(loader.take_wait_seconds(), 0.0);
}

}  // namespace
}  // namespace fovea::data
