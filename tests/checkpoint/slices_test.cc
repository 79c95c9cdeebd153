#include "fovea/checkpoint/slices.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::checkpoint {
namespace {

// Every range of every shape: the boxes hold its elements, in order, and there are few.
TEST(SlicesTest, BoxesCoverARange) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {}, {1}, {7}, {3, 5}, {1, 6}, {4, 1}, {2, 3, 4}, {2, 2, 3, 2}}) {
    int64_t total = 1;
    for (const auto side : shape) total *= side;
    const auto whole = at::arange(total).view(shape);
    for (int64_t first = 0; first <= total; ++first) {
      for (int64_t count = 0; first + count <= total; ++count) {
        const auto boxes = boxes_of_range(shape, first, count);
        EXPECT_LE(boxes.size(), 2 * std::max<size_t>(1, shape.size()) - 1);
        int64_t next = first;
        for (const auto& box : boxes) {
          auto values = whole;
          for (size_t d = 0; d < shape.size(); ++d) {
            values = values.narrow(static_cast<int64_t>(d), box.offset[d], box.size[d]);
          }
          ASSERT_TRUE(values.reshape({-1}).equal(at::arange(next, next + values.numel())));
          next += values.numel();
        }
        EXPECT_EQ(next, first + count);
      }
    }
  }
  EXPECT_THROW(boxes_of_range({3, 5}, 10, 6), Error);
}

TEST(SlicesTest, KeysTellSlicesApart) {
  EXPECT_EQ(slice_key("head.weight", {3, 5}, {{0, 0}, {3, 5}}), "head.weight");
  EXPECT_EQ(slice_key("head.weight", {3, 5}, {{1, 0}, {2, 5}}), "head.weight@1,0");
}

}  // namespace
}  // namespace fovea::checkpoint
