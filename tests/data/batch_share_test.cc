// Shares of global batches: which rows, and that a loader of any share gives those of the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fovea/data/loader.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::FakeDataset;
using ::testing::HasSubstr;
using testing::message_of;

constexpr int64_t kImage = 64;  // values of one

Loader cropping_loader(const LoaderOptions& options) {
  return Loader(std::make_shared<FakeDataset>(53, 8),
                std::make_shared<TransformPipeline>(
                    std::vector<TransformConfig>{{RandomCropConfig{.size = {8}, .padding = {2}}},
                                                 {NormalizeConfig{}}},
                    /*in_chans=*/1),
                options);
}

void expect_rows_of(const Batch& part, const Batch& whole, const BatchShare& share) {
  const int64_t begin = share.begin(whole.size()), rows = share.rows(whole.size());
  ASSERT_EQ(part.size(), rows);
  EXPECT_EQ(part.share, share);
  EXPECT_EQ(part.position, whole.position);
  EXPECT_EQ(part.global_size, whole.size());
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_EQ(part.rows[row], begin + row);
    EXPECT_EQ(part.indices[row], whole.indices[begin + row]);
    EXPECT_EQ(part.weights[row], 1.0f);
  }
  EXPECT_TRUE(
      std::equal(part.images.begin(), part.images.end(), whole.images.begin() + begin * kImage));
}

TEST(BatchShareTest, SharesOfRanksAreAllRowsInTheirOrder) {
  for (const int64_t slots : {0, 8, 9}) {
    for (const int64_t ranks : {1, 2, 3, 5, 8}) {
      for (const int64_t rows : {0, 1, 2, 7, 8, 24, 257}) {
        int64_t next = 0;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const auto share = BatchShare::of_rank(rank, ranks, slots);
          EXPECT_EQ(share.begin(rows), next);
          EXPECT_LE(share.rows(rows), share.most_rows(rows));
          EXPECT_GE(share.rows(rows), share.most_rows(rows) - 1);
          next = share.end(rows);
        }
        EXPECT_EQ(next, rows);
      }
    }
  }
  EXPECT_EQ(BatchShare::of_rank(1, 3, 8), (BatchShare{2, 5, 8}));
  EXPECT_EQ(BatchShare::of_rank(1, 3), (BatchShare{1, 2, 3}));
  EXPECT_TRUE(BatchShare::of_rank(0, 1, 8).is_whole());
  EXPECT_FALSE(BatchShare::of_rank(0, 2).is_whole());
}

// Also of shares that are larger than others, and of batches with fewer rows than there are parts.
TEST(BatchShareTest, ALoaderOfAnyShareHasTheRowsOfTheWhole) {
  const std::vector<BatchShare> shares = {{0, 1, 2}, {1, 2, 2},  {0, 5, 7},
                                          {5, 7, 7}, {3, 4, 11}, {0, 16, 16}};
  for (const int64_t threads : {0, 2}) {
    for (const auto& share : shares) {
      Loader whole = cropping_loader({.global_batch_size = 10, .threads = 0});
      Loader part = cropping_loader({.global_batch_size = 10, .threads = threads, .share = share});
      for (int i = 0; i < 9; ++i) expect_rows_of(part.next(), whole.next(), share);
    }
  }
}

// What was prepared with the share before is made again.
TEST(BatchShareTest, AShareThatChangesIsThatOfALoaderWhichHadItAlways) {
  for (const int64_t threads : {0, 1, 3}) {
    Loader whole = cropping_loader({.global_batch_size = 10, .threads = 0});
    Loader changing = cropping_loader({.global_batch_size = 10,
                                       .threads = threads,
                                       .prefetch = 3,
                                       .share = BatchShare::of_rank(0, 3)});
    const std::vector<BatchShare> shares = {
        BatchShare::of_rank(0, 3), {1, 2, 2}, {0, 8, 8}, {2, 5, 8}, BatchShare::of_rank(12, 13)};
    for (int round = 0; round < 3; ++round) {
      for (const auto& share : shares) {
        changing.set_share(share);
        for (int i = 0; i < 2; ++i) expect_rows_of(changing.next(), whole.next(), share);
      }
    }
  }
}

TEST(BatchShareTest, RefusesSharesThatCannotBe) {
  Loader loader = cropping_loader({.global_batch_size = 10});
  for (const BatchShare& share : {BatchShare{1, 1, 2}, {0, 3, 2}, {-1, 1, 2}, {0, 1, 0}}) {
    EXPECT_THAT(message_of<Error>([&] { loader.set_share(share); }), HasSubstr("do not exist"));
  }
  EXPECT_EQ(loader.next().size(), 10);
}

}  // namespace
}  // namespace fovea::data
