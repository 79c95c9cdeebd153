#include "fovea/data/order/sample_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/order/permutation.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

using Place = std::pair<int64_t, int64_t>;  // set, index

// The batches of one epoch, from its first position on; checks what holds for every batch.
std::vector<GlobalBatch> epoch_of(const SampleOrder& order, int64_t epoch) {
  std::vector<GlobalBatch> batches;
  int64_t position = epoch * order.samples_per_epoch();
  for (int64_t i = 0; i < order.batches_per_epoch(); ++i) {
    EXPECT_TRUE(order.is_start(position));
    const GlobalBatch batch = order.batch_at(position);
    EXPECT_EQ(batch.position, position);
    EXPECT_EQ(batch.epoch, epoch);
    EXPECT_GT(batch.rows, 0);
    for (int64_t row = 0; row < batch.rows && batch.set >= 0; ++row) {
      EXPECT_EQ(order.place(batch, row).set, batch.set);  // batches are of one set
    }
    position += batch.rows;
    batches.push_back(batch);
  }
  EXPECT_EQ(position, (epoch + 1) * order.samples_per_epoch());
  return batches;
}

std::map<Place, int64_t> counts_of(const SampleOrder& order, int64_t epoch) {
  std::map<Place, int64_t> counts;
  for (const GlobalBatch& batch : epoch_of(order, epoch)) {
    for (int64_t row = 0; row < batch.rows; ++row) {
      const SamplePlace place = order.place(batch, row);
      ++counts[{place.set, place.index}];
    }
  }
  return counts;
}

const std::vector<std::vector<int64_t>> kSizes = {
    {1}, {7}, {64}, {5, 5}, {1, 1, 1}, {100, 3}, {17, 64, 9}, {128, 128, 1, 33}, {2, 300}};

TEST(SampleOrderTest, ExactHoldsEverySampleOnce) {
  int epochs = 0;
  for (const auto& sizes : kSizes) {
    for (const int64_t batch : {1, 2, 7, 16, 64, 500}) {
      for (const bool shuffle : {false, true}) {
        const SampleOrder order(
            {.mix = {.set_sizes = sizes}, .global_batch_size = batch, .shuffle = shuffle});
        const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
        EXPECT_EQ(order.samples_per_epoch(), total);
        for (const int64_t epoch : {0, 1, 5}) {
          const auto counts = counts_of(order, epoch);
          ASSERT_EQ(static_cast<int64_t>(counts.size()), total);
          for (const auto& [place, count] : counts) ASSERT_EQ(count, 1);
          ++epochs;
        }
      }
    }
  }
  EXPECT_EQ(epochs, 324);
}

// The shards of any number of ranks hold the rows i % world == rank: their union is the batch.
TEST(SampleOrderTest, ShardsOfAnyWorldSizeAreThePartsOfOneOrder) {
  for (const auto& sizes : kSizes) {
    const SampleOrder order({.mix = {.set_sizes = sizes}, .global_batch_size = 12});
    std::vector<Place> whole;
    for (const GlobalBatch& batch : epoch_of(order, 2)) {
      for (int64_t row = 0; row < batch.rows; ++row) {
        const auto place = order.place(batch, row);
        whole.push_back({place.set, place.index});
      }
    }
    for (const int64_t world : {1, 2, 3, 5, 8}) {
      std::set<Place> seen;
      size_t count = 0;
      for (int64_t rank = 0; rank < world; ++rank) {
        for (const GlobalBatch& batch : epoch_of(order, 2)) {
          for (int64_t row = rank; row < batch.rows; row += world, ++count) {
            const auto place = order.place(batch, row);
            EXPECT_TRUE(seen.insert({place.set, place.index}).second);
          }
        }
      }
      EXPECT_EQ(count, whole.size());
    }
  }
}

TEST(SampleOrderTest, OneSetIsThePlainOrder) {
  const SampleOrder order({.mix = {.set_sizes = {53}}, .global_batch_size = 10, .seed = 9});
  const Permutation permutation(53, 9, 3);
  int64_t place = 0;
  for (const GlobalBatch& batch : epoch_of(order, 3)) {
    for (int64_t row = 0; row < batch.rows; ++row, ++place) {
      ASSERT_EQ(order.place(batch, row).index, permutation(place));
    }
  }
  EXPECT_EQ(place, 53);
}

TEST(SampleOrderTest, BatchesOfSetsAreSpreadAndDifferByEpochAndSeed) {
  const auto sets = [](uint64_t seed, int64_t epoch) {
    const SampleOrder order(
        {.mix = {.set_sizes = {400, 400}}, .global_batch_size = 4, .seed = seed});
    std::vector<int64_t> sets;
    for (const GlobalBatch& batch : epoch_of(order, epoch)) sets.push_back(batch.set);
    return sets;
  };
  const auto first = sets(1, 0);
  EXPECT_EQ(first, sets(1, 0));
  EXPECT_NE(first, sets(1, 1));
  EXPECT_NE(first, sets(2, 0));
  EXPECT_EQ(std::count(first.begin(), first.end(), 0), 100);
  const auto half = std::count(first.begin(), first.begin() + 100, 0);
  EXPECT_NEAR(static_cast<double>(half), 50.0, 20.0);
  // Two sets of one size do not come in the same order.
  const SampleOrder order({.mix = {.set_sizes = {400, 400}}, .global_batch_size = 400});
  std::map<int64_t, std::vector<int64_t>> orders;
  for (const GlobalBatch& batch : epoch_of(order, 0)) {
    for (int64_t row = 0; row < 400; ++row)
      orders[batch.set].push_back(order.place(batch, row).index);
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(SampleOrderTest, DropLastLeavesOutEachSetsRest) {
  const SampleOrder order(
      {.mix = {.set_sizes = {17, 9}}, .global_batch_size = 4, .drop_last = true});
  EXPECT_EQ(order.samples_per_epoch(), 24);
  EXPECT_EQ(order.batches_of(0), 4);
  EXPECT_EQ(order.batches_of(1), 2);
  EXPECT_EQ(counts_of(order, 0).size(), 24u);
  EXPECT_THAT(message_of<ConfigError>([] {
                SampleOrder({.mix = {.set_sizes = {17, 3}, .set_names = {"a", "small"}},
                             .global_batch_size = 4,
                             .drop_last = true});
              }),
              HasSubstr("small has 3 samples"));
}

// Every set has as many batches; over whole cycles each sample is seen equally often, with no
// sample left out or doubled inside a cycle.
TEST(SampleOrderTest, CyclesToTheLargest) {
  for (const auto& sizes : kSizes) {
    for (const int64_t batch : {1, 4, 32}) {
      const SampleOrder order({.mix = {.mode = MixMode::kCycleToLargest, .set_sizes = sizes},
                               .global_batch_size = batch});
      const int64_t largest = *std::max_element(sizes.begin(), sizes.end());
      std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> cycles;  // set, cycle -> indices
      std::map<int64_t, int64_t> draws;
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        for (const GlobalBatch& plan : epoch_of(order, epoch)) {
          ASSERT_EQ(plan.rows, batch);
          for (int64_t row = 0; row < batch; ++row, ++draws[plan.set]) {
            const auto place = order.place(plan, row);
            ASSERT_TRUE(cycles[std::pair(place.set, place.cycle)].insert(place.index).second);
          }
        }
      }
      for (size_t set = 0; set < sizes.size(); ++set) {
        const auto s = static_cast<int64_t>(set);
        ASSERT_EQ(order.batches_of(s), (largest + batch - 1) / batch);
        ASSERT_EQ(draws[s], 3 * order.batches_of(s) * batch);
        for (int64_t cycle = 0; cycle < draws[s] / sizes[set]; ++cycle) {
          ASSERT_EQ(static_cast<int64_t>(cycles[std::pair(s, cycle)].size()), sizes[set]);
        }
      }
    }
  }
}

TEST(SampleOrderTest, WeightsShareTheBatches) {
  const SampleOrder order({.mix = {.mode = MixMode::kWeights,
                                   .set_sizes = {1000, 1000, 10},
                                   .weights = {1.0, 2.0, 1.0}},
                           .global_batch_size = 10});
  EXPECT_EQ(order.batches_per_epoch(), 201);
  EXPECT_EQ(order.batches_of(0), 50);
  EXPECT_EQ(order.batches_of(1), 101);  // 100.5: the largest remainder
  EXPECT_EQ(order.batches_of(2), 50);
  std::vector<int64_t> batches(3);
  for (const GlobalBatch& batch : epoch_of(order, 1)) ++batches[batch.set];
  EXPECT_EQ(batches, (std::vector<int64_t>{50, 101, 50}));
  const auto counts = counts_of(order, 0);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(counts.at({2, i}), 50);
  EXPECT_THAT(message_of<ConfigError>([] {
                SampleOrder({.mix = {.mode = MixMode::kWeights,
                                     .set_sizes = {10, 10},
                                     .weights = {1000.0, 1.0},
                                     .set_names = {"a", "rare"}},
                             .global_batch_size = 5});
              }),
              HasSubstr("rare"));
  EXPECT_THROW(
      SampleOrder({.mix = {.mode = MixMode::kWeights, .set_sizes = {9, 9}, .weights = {1}}}),
      ConfigError);
}

TEST(SampleOrderTest, RankGroupsReadOneSetEach) {
  const SampleOrder order({.mix = {.mode = MixMode::kRankGroups,
                                   .set_sizes = {60, 20},
                                   .rank_groups = {3, 1},
                                   .batches_per_rank = {5, 4}},
                           .global_batch_size = 16});
  EXPECT_EQ(order.batches_per_epoch(), 5);
  std::map<Place, int64_t> counts;
  for (const GlobalBatch& batch : epoch_of(order, 0)) {
    EXPECT_EQ(batch.set, -1);
    for (int64_t row = 0; row < 16; ++row) {
      const auto place = order.place(batch, row);
      EXPECT_EQ(place.set, row < 12 ? 0 : 1);
      ++counts[{place.set, place.index}];
    }
  }
  EXPECT_EQ(counts.size(), 80u);  // 5 batches of 12 and of 4: each sample once
  const auto refuse = [](std::vector<int64_t> groups, int64_t batch) {
    return message_of<ConfigError>([&] {
      SampleOrder(
          {.mix = {.mode = MixMode::kRankGroups, .set_sizes = {6, 2}, .rank_groups = groups},
           .global_batch_size = batch});
    });
  };
  EXPECT_THAT(refuse({4}, 8), HasSubstr("1 for 2 sets"));
  EXPECT_THAT(refuse({4, 0}, 8), HasSubstr("no rank"));
  EXPECT_THAT(refuse({3, 1}, 6), HasSubstr("use a multiple"));
}

TEST(SampleOrderTest, KnowsWhereBatchesStart) {
  const SampleOrder order({.mix = {.set_sizes = {10, 7}}, .global_batch_size = 4});
  // 2 + 1 full batches, then rests of 2 and 3.
  std::vector<int64_t> starts;
  for (int64_t position = 0; position < 17; ++position) {
    if (order.is_start(position)) starts.push_back(position);
  }
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 4, 8, 12, 14}));
  EXPECT_TRUE(order.is_start(17));
  EXPECT_FALSE(order.is_start(-4));
  EXPECT_THROW(order.batch_at(5), Error);
}

TEST(SampleOrderTest, NamesItsModes) {
  EXPECT_EQ(mix_mode("exact"), MixMode::kExact);
  EXPECT_EQ(mix_mode("cycle_to_largest"), MixMode::kCycleToLargest);
  EXPECT_EQ(mix_mode("weights"), MixMode::kWeights);
  EXPECT_EQ(mix_mode("rank_groups"), MixMode::kRankGroups);
  EXPECT_THAT(message_of<ConfigError>([] { mix_mode("some"); }), HasSubstr("cycle_to_largest"));
}

}  // namespace
}  // namespace fovea::data
