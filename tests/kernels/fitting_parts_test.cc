#include "fovea/kernels/fitting_parts.h"

#include <c10/core/Device.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace fovea::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Parts = std::vector<std::pair<int64_t, int64_t>>;

// The parts that were done, where there is memory for `room` items.
Parts parts_with_room(FittingParts& parts, int64_t total, int64_t room) {
  Parts done;
  parts.run(total, [&](int64_t first, int64_t count) {
    if (count > room) throw std::bad_alloc();
    done.emplace_back(first, count);
  });
  return done;
}

TEST(FittingPartsTest, AreAsLargeAsMemoryAllowsFromThenOn) {
  FittingParts parts(8, at::kCPU);
  EXPECT_THAT(parts_with_room(parts, 11, 8), ElementsAre(Pair(0, 8), Pair(8, 3)));
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(parts_with_room(parts, 7, 3), ElementsAre(Pair(0, 3), Pair(3, 3), Pair(6, 1)));
  EXPECT_THAT(parts_with_room(parts, 4, 8), ElementsAre(Pair(0, 3), Pair(3, 1)));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("memory ran out in a pass over 7 inputs: from now on 3 at a time"));
}

TEST(FittingPartsTest, WhatHasNoMemoryAloneAndOtherErrorsAreTold) {
  FittingParts parts(4, at::kCPU);
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(parts_with_room(parts, 4, 0), std::bad_alloc);
  ::testing::internal::GetCapturedStderr();
  FittingParts others(4, at::kCPU);
  int64_t calls = 0;
  EXPECT_THROW(others.run(4,
                          [&](int64_t, int64_t) {
                            ++calls;
                            throw std::runtime_error("not of memory");
                          }),
               std::runtime_error);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(others.most(), 4);
}

}  // namespace
}  // namespace fovea::kernels
