#include "fovea/core/machine_load.h"

#include <gtest/gtest.h>

#include <thread>

namespace fovea {
namespace {

TEST(MachineLoadTest, BusyTimeIsThatOfTheCoresThatCount) {
  const char* stat =
      "cpu  460 0 40 1000 0 0 0 0 0 0\n"
      "cpu0 100 20 30 400 7 1 2 5 0 0\n"
      "cpu1 300 0 0 100 0 0 0 0 0 0\n"
      "cpu10 60 0 10 500 0 0 0 0 0 0\n"
      "intr 12345\n";
  EXPECT_DOUBLE_EQ(busy_seconds(stat, {0}, 100).value(), 1.58);  // neither idle nor waiting
  EXPECT_DOUBLE_EQ(busy_seconds(stat, {0, 10}, 100).value(), 2.28);
  EXPECT_DOUBLE_EQ(busy_seconds("cpu0 1 1 1 9 0 0 0\n", {0}, 1).value(), 3);  // an old kernel
  EXPECT_FALSE(busy_seconds(stat, {2}, 100));
  EXPECT_FALSE(busy_seconds(stat, {0, 2}, 100));
  EXPECT_FALSE(busy_seconds("cpu0 1 2\n", {0}, 100));
  EXPECT_FALSE(busy_seconds("", {0}, 100));
  EXPECT_FALSE(busy_seconds(stat, {}, 100));
}

TEST(MachineLoadTest, BusyIsWhereOthersLeaveTooLittle) {
  EXPECT_TRUE((MachineLoad{.others = 1.7, .own = 0.3, .cores = 2}.is_busy()));
  EXPECT_FALSE((MachineLoad{.others = 0.1, .own = 1.9, .cores = 2}.is_busy()));
  EXPECT_FALSE((MachineLoad{.others = 4, .own = 2, .cores = 8}.is_busy()));  // two are idle
  EXPECT_EQ((MachineLoad{.others = 1.74, .own = 0, .cores = 2}.text()),
            "others use 1.7 of 2 cores");
}

TEST(MachineLoadTest, ReadsThisMachine) {
  MachineLoadMeter meter;
  EXPECT_FALSE(meter.read(std::chrono::hours(1)));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto load = meter.read(std::chrono::milliseconds(10));
  if (!load) GTEST_SKIP() << "no /proc/stat";
  EXPECT_GE(load->others, 0);
  EXPECT_GE(load->cores, 1);
}

}  // namespace
}  // namespace fovea
