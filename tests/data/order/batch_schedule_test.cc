#include "fovea/data/order/batch_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/order/sample_order.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

std::string schedule_fault(const SampleOrderOptions& options) {
  return message_of<ConfigError>([&] { SampleOrder order(options); });
}

// Batches one after the other from position 0 on, each found in every way that there is.
std::vector<GlobalBatch> scheduled_batches(const SampleOrder& order, int64_t count) {
  std::vector<GlobalBatch> batches;
  int64_t position = 0;
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(order.position_of(i), position);
    EXPECT_EQ(order.batches_before(position), i);
    EXPECT_TRUE(order.is_start(position));
    batches.push_back(order.batch_at(position));
    for (int64_t inside = 1; inside < batches.back().rows; ++inside) {
      EXPECT_FALSE(order.is_start(position + inside));
      EXPECT_EQ(order.batches_before(position + inside), i + 1);
    }
    position += batches.back().rows;
  }
  return batches;
}

std::vector<SamplePlace> places_in_order(const SampleOrder& order, int64_t samples) {
  std::vector<SamplePlace> places;
  for (int64_t position = 0; position < samples;) {
    const auto batch = order.batch_at(position);
    for (int64_t row = 0; row < batch.rows; ++row) places.push_back(order.place(batch, row));
    position += batch.rows;
  }
  return places;
}

// Whatever the sizes are, the samples come in the order that they have without a schedule.
TEST(BatchScheduleTest, TheOrderOfSamplesIsThatOfOneSize) {
  for (const double repeats : {1.0, 3.0}) {
    for (const int64_t window : {0, 2}) {
      SampleOrderOptions options{.mix = {.set_sizes = {300}}, .num_repeats = repeats};
      if (window > 0) options.mix.tiles = {{.ends = {40, 130, 170, 300}, .window = window}};
      options.global_batch_size = 300;
      const SampleOrder whole(options);
      options.global_batch_size = 16;
      const auto epoch = whole.samples_per_epoch();
      // In an epoch, at its end, a size twice, a larger one than an epoch.
      options.batch_schedule = {{0, 16},          {64, 24},          {112, 7},      {epoch, 32},
                                {epoch + 64, 32}, {2 * epoch, 1000}, {3 * epoch, 5}};
      const SampleOrder order(options);
      const auto expected = places_in_order(whole, 4 * epoch);
      const auto found = places_in_order(order, 4 * epoch);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].index, expected[i].index) << i;
        ASSERT_EQ(found[i].cycle, expected[i].cycle) << i;
        ASSERT_EQ(found[i].repeat, expected[i].repeat) << i;
      }
    }
  }
}

TEST(BatchScheduleTest, ABatchIsTheNextPlacesOfItsEpoch) {
  const SampleOrder order({.mix = {.set_sizes = {100}},
                           .global_batch_size = 16,
                           .batch_schedule = {{32, 30}, {190, 50}}});
  std::vector<int64_t> rows, epochs;
  for (const auto& batch : scheduled_batches(order, 12)) {
    rows.push_back(batch.rows);
    epochs.push_back(batch.epoch);
  }
  EXPECT_EQ(rows, (std::vector<int64_t>{16, 16, 30, 30, 8, 30, 30, 30, 10, 50, 50, 50}));
  EXPECT_EQ(epochs, (std::vector<int64_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3}));
  EXPECT_EQ(order.batch_size_at(31), 16);
  EXPECT_EQ(order.batch_size_at(32), 30);
  EXPECT_EQ(order.batch_size_at(190), 50);
  EXPECT_EQ(order.batch_schedule(), (BatchSchedule{{0, 16}, {32, 30}, {190, 50}}));
  EXPECT_EQ(order.epochs_before(250), 2.5);
}

// What a run counts by: 16 samples are a step, and the 4 at an epoch's end are one too.
TEST(BatchScheduleTest, StepsAreCountedInBatchesOfTheFirstSize) {
  const SampleOrder order({.mix = {.set_sizes = {100}},
                           .global_batch_size = 16,
                           .batch_schedule = {{32, 30}, {200, 98}, {300, 4}}});
  const std::vector<double> expected = {0,        1,         2,  3.875, 5.75, 7,    7 + 1.875,
                                        7 + 3.75, 7 + 5.625, 14, 20.5,  21,   21.25};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(order.first_size_steps(static_cast<int64_t>(i)), expected[i]) << i;
  }
}

// All that there is of a schedule says that nothing changes, in each way to mix: a batch's number
// is what counts, to the bit, and the batches are those without it.
TEST(BatchScheduleTest, OneSizeIsNoSchedule) {
  for (const MixMode mode : {MixMode::kExact, MixMode::kCycleToLargest, MixMode::kWeights}) {
    for (const auto& sizes : std::vector<std::vector<int64_t>>{{107}, {107, 41, 9}}) {
      SampleOrderOptions options{.mix = {.mode = mode, .set_sizes = sizes}, .global_batch_size = 6};
      options.mix.weights.assign(sizes.size(), 1.0);
      const SampleOrder plain(options);
      options.batch_schedule = {{0, 6}, {plain.samples_per_epoch(), 6}};
      const SampleOrder order(options);
      for (int64_t i = 0; i < 4 * plain.batches_per_epoch(); ++i) {
        ASSERT_EQ(order.first_size_steps(i), static_cast<double>(i));
        ASSERT_EQ(order.position_of(i), plain.position_of(i));
        const auto batch = order.batch_at(order.position_of(i));
        const auto other = plain.batch_at(batch.position);
        ASSERT_EQ(order.epochs_before(batch.position), plain.epochs_before(batch.position));
        ASSERT_EQ(batch.rows, other.rows);
        for (int64_t row = 0; row < batch.rows; ++row) {
          const auto place = order.place(batch, row), expected = plain.place(other, row);
          ASSERT_EQ(place.set, expected.set);
          ASSERT_EQ(place.index, expected.index);
          ASSERT_EQ(place.cycle, expected.cycle);
        }
      }
    }
  }
}

// In epochs of their own sizes: with exact each sample once an epoch, in streams none twice in a
// cycle, and none left out across the changes.
TEST(BatchScheduleTest, MixesChangeAtTheEndsOfEpochs) {
  for (const bool has_tiles : {false, true}) {
    for (const MixMode mode : {MixMode::kExact, MixMode::kCycleToLargest, MixMode::kWeights}) {
      const std::vector<int64_t> sizes = {60, 23, 8};
      SampleOrderOptions options{.mix = {.mode = mode, .set_sizes = sizes}, .global_batch_size = 4};
      options.mix.weights = {3, 2, 1};
      if (has_tiles) options.mix.tiles = {{.ends = {20, 60}, .window = 1}, {}, {}};
      SampleOrder order(options);
      std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> seen;  // set, cycle -> samples
      std::map<int64_t, int64_t> draws;
      int64_t position = 0, batches = 0;
      for (const int64_t size : {4, 6, 6, 1, 16}) {
        if (size != 4) order.append({position, size});
        const auto epoch = order.batch_at(position).epoch;
        EXPECT_EQ(order.epochs_before(position), static_cast<double>(epoch));
        EXPECT_EQ(order.first_size_steps(batches),
                  static_cast<double>(epoch * order.batches_per_epoch()));
        for (; order.batch_at(position).epoch == epoch; ++batches) {
          const auto batch = order.batch_at(position);
          ASSERT_EQ(order.position_of(batches), position);
          ASSERT_TRUE(mode == MixMode::kExact || batch.rows == size);
          for (int64_t row = 0; row < batch.rows; ++row, ++draws[batch.set]) {
            const auto place = order.place(batch, row);
            ASSERT_EQ(place.set, batch.set);
            ASSERT_TRUE(seen[std::pair(place.set, place.cycle)].insert(place.index).second);
          }
          position += batch.rows;
        }
      }
      for (size_t set = 0; set < sizes.size(); ++set) {
        const auto s = static_cast<int64_t>(set);
        for (int64_t cycle = 0; cycle < draws[s] / sizes[set]; ++cycle) {
          EXPECT_EQ(static_cast<int64_t>(seen[std::pair(s, cycle)].size()), sizes[set]);
        }
      }
    }
  }
}

// Nobody has a batch of it yet.
TEST(BatchScheduleTest, AChangeWhereTheLastOneIsTakesItsPlace) {
  SampleOrder order({.mix = {.set_sizes = {100}}, .global_batch_size = 16});
  order.append({32, 30});
  order.append({32, 8});
  EXPECT_EQ(order.batch_schedule(), (BatchSchedule{{0, 16, {}}, {32, 8, {}}}));
  EXPECT_EQ(order.batch_at(32).rows, 8);
  order.append({32, 16});
  EXPECT_FALSE(order.has_changes());
  EXPECT_EQ(order.position_of(3), 48);
}

TEST(BatchScheduleTest, SaysWhereBatchesStart) {
  SampleOrderOptions options{.mix = {.set_sizes = {100}}, .global_batch_size = 16};
  const auto with = [&](BatchSchedule schedule) {
    options.batch_schedule = std::move(schedule);
    return schedule_fault(options);
  };
  EXPECT_THAT(with({{40, 32, "s.yaml:3"}}),
              AllOf(HasSubstr("s.yaml:3: position 40: no batch starts there"),
                    HasSubstr("such as 32 or 48")));
  EXPECT_THAT(with({{32, 30}, {99, 8}}), HasSubstr("such as 92 or 100"));
  EXPECT_THAT(with({{0, 8}}), AllOf(HasSubstr("the first batches have 8 samples"),
                                    HasSubstr("set data.global_batch_size=8")));
  EXPECT_THAT(with({{32, 30}, {16, 8}}), HasSubstr("expected one behind 32"));
  EXPECT_THAT(with({{32, 0}}), HasSubstr("size 0"));
  options.drop_last = true;
  EXPECT_THAT(with({{32, 30}}), HasSubstr("set drop_last: false"));
  options = {.mix = {.set_sizes = {40, 8}}, .global_batch_size = 8};
  EXPECT_THAT(with({{56, 16}}),
              AllOf(HasSubstr("position 56 lies within an epoch"), HasSubstr("such as 48 or 96")));
  options.mix.mode = MixMode::kRankGroups;
  options.mix.rank_groups = {3, 1};
  EXPECT_THAT(with({{48, 16}}), HasSubstr("mix: rank_groups"));
}

TEST(BatchScheduleTest, IsReadAndWritten) {
  const testing::TempDir folder;
  const BatchSchedule schedule = {{0, 16}, {64, 32}, {1 << 30, 8}};
  const auto path = folder.file("batch_schedule.yaml");
  write_batch_schedule(path, schedule);
  EXPECT_EQ(read_batch_schedule(path), schedule);
  EXPECT_EQ(read_batch_schedule(path)[1].where, path + ":2");
  const auto json = folder.write("s.json", R"([{"position": 5, "size": 1e3}])");
  EXPECT_EQ(read_batch_schedule(json), (BatchSchedule{{5, 1000}}));
  EXPECT_EQ(schedule_before(schedule, 64), (BatchSchedule{{0, 16}}));
  EXPECT_EQ(schedule_before({{0, 16}, {64, 16}, {80, 4}}, 90), (BatchSchedule{{0, 16}, {80, 4}}));
}

TEST(BatchScheduleTest, NamesTheLineOfAFault) {
  const testing::TempDir folder;
  const auto fault = [&](const std::string& text) {
    const auto path = folder.write("s.yaml", text);
    return message_of<ConfigError>([&] { read_batch_schedule(path); });
  };
  EXPECT_THAT(fault("- {position: 0, size: 8}\n- {position: 64, siez: 8}\n"),
              AllOf(HasSubstr("s.yaml:2: "), HasSubstr("siez"), HasSubstr("size")));
  EXPECT_THAT(fault("- {position: 0, size: 8}\n- {position: 64, size: 0}\n"),
              AllOf(HasSubstr("s.yaml:2: "), HasSubstr(">= 1")));
  EXPECT_THAT(fault("- {position: 64, size: 8}\n\n- {position: 8, size: 9}\n"),
              AllOf(HasSubstr("s.yaml:3: "), HasSubstr("found 8 after 64")));
  EXPECT_THAT(fault("position: 0\nsize: 8\n"), HasSubstr("expected a list"));
  EXPECT_THAT(fault("[]"), HasSubstr("the list is empty"));
  EXPECT_THAT(fault("- {position: 0, size: 8"), HasSubstr("s.yaml:"));
  EXPECT_THAT(message_of<ConfigError>([&] { read_batch_schedule(folder.file("none.yaml")); }),
              AllOf(HasSubstr("data.batch_schedule"), HasSubstr("none.yaml")));
}

}  // namespace
}  // namespace fovea::data
