#include "fovea/elastic/solve/step_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/core/error.h"
#include "tests/elastic/solve/solve_cases.h"

namespace fovea::elastic {
namespace {

DeviceProfile one_way() {
  return {.fingerprint = "d",
          .model = "m",
          .dtype = "float32",
          .computation = {{.local_batch = 4,
                           .data_ms = 1,
                           .forward_ms = 10,
                           .backward_ms = 20,
                           .update_ms = 3,
                           .sync_ms = 0.5},
                          {.local_batch = 8,
                           .data_ms = 2,
                           .forward_ms = 18,
                           .backward_ms = 36,
                           .update_ms = 5,
                           .sync_ms = 0.5}},
          .memory = {{.local_batch = 8, .max_concurrent = 1}}};
}

// 13 samples are a pass of 8 and one of 5; the update takes the least time that was measured.
TEST(StepModelTest, PassesAddUp) {
  const DeviceModel model(one_way(), WeightSync::kSequential, 0.25);
  const NetworkTime network{.before_last = 30, .last = 7};
  const auto& way = model.ways()[1];
  ASSERT_EQ(way.micro_batch(), 8);
  const double data = 2 + 1.25, forward = 18 + 12, backward = 36 + 24;
  const double exposed = 30 - 24 + 7;
  const auto parts = way.parts(13, network);
  EXPECT_NEAR(parts.data, data, 1e-12);
  EXPECT_NEAR(parts.forward, forward, 1e-12);
  EXPECT_NEAR(parts.backward, backward, 1e-12);
  EXPECT_NEAR(parts.communication, exposed, 1e-12);
  EXPECT_NEAR(parts.update, 3, 1e-12);
  EXPECT_NEAR(way.milliseconds(13, network), parts.total(), 1e-12);
  const auto passes = passes_of(way, 13);
  EXPECT_EQ(passes.micro_batch, 8);
  EXPECT_EQ(passes.accumulation, 1);
  const DeviceModel overlapped(one_way(), WeightSync::kOverlap, 0.25);
  EXPECT_NEAR(overlapped.ways()[1].parts(13, network).update, 0.75, 1e-12);
}

TEST(StepModelTest, CapacityIsTheMostThatFits) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto made = testing::random_case(seed, 3);
    const DeviceModel model(made.profiles.devices[0], WeightSync::kOverlap, 0.2);
    const NetworkTime network{.before_last = 3.0 * static_cast<double>(seed % 5), .last = 2};
    double before = 0;
    for (int64_t samples = 1; samples < 60; ++samples) {
      const double ms = model.milliseconds(samples, network);
      EXPECT_GE(ms, before);
      before = ms;
      EXPECT_GE(model.capacity(ms, network, 1000), samples);
      EXPECT_LT(model.capacity(std::nextafter(ms, 0.0), network, 1000), samples + 1);
      EXPECT_EQ(model.capacity(ms, network, samples), samples);
    }
    EXPECT_EQ(model.capacity(0.01, network, 1000), 0);
  }
}

TEST(StepModelTest, MoreWorkersThanMemoryHoldsAreNoWay) {
  auto profile = testing::device_profile("d", 1, 4, 3);
  EXPECT_EQ(DeviceModel(profile, WeightSync::kOverlap, 1).ways().size(), 4U);
  profile.memory = {{.local_batch = 4, .max_concurrent = 3},
                    {.local_batch = 8, .max_concurrent = 1}};
  EXPECT_EQ(DeviceModel(profile, WeightSync::kOverlap, 1).ways().size(), 3U);
  profile.memory = {{.local_batch = 1, .max_concurrent = 3}};
  EXPECT_THROW(DeviceModel(profile, WeightSync::kOverlap, 1), DataError);
}

// What was measured comes back; other numbers of ranks follow rings and trees.
TEST(NetworkModelTest, FollowsBytesAndRanks) {
  ProfileSet set;
  set.bucket_megabytes = {16, 4};
  for (const double mb : {1.0, 4.0, 16.0}) {
    set.communication.push_back({.collective = "all_reduce",
                                 .place = "inter",
                                 .ranks = 4,
                                 .bytes = mb * 1048576,
                                 .ms = 0.5 + mb});
  }
  const NetworkModel network(set);
  const HostConfig host{.intra_network_bandwidth = 1, .inter_network_bandwidth = 1};
  EXPECT_NEAR(network.time(host, 4, true).before_last, 16.5, 1e-9);
  EXPECT_NEAR(network.time(host, 4, true).last, 4.5, 1e-9);
  EXPECT_NEAR(network.time(host, 16, true).last, 2 * 0.5 + 4 * (15.0 / 16) / (3.0 / 4), 1e-9);
  EXPECT_EQ(network.time(host, 1, true).last, 0);
  EXPECT_NEAR(network.last_share(), 0.2, 1e-12);
}

}  // namespace
}  // namespace fovea::elastic
