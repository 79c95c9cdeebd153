#include "fovea/checkpoint/slices.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <c10/util/accumulate.h>
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

// Every range of every cut: the boxes of the whole hold its elements, in order.
TEST(SlicesTest, BoxesCoverARangeOfACut) {
  const kernels::TensorPart rows{.shape = {12, 3}, .cut = kernels::TensorCut{0, 3, 1, 2}};
  const kernels::TensorPart columns{.shape = {3, 8}, .cut = kernels::TensorCut{1, 1, 3, 4}};
  const kernels::TensorPart bias{.shape = {12}, .cut = kernels::TensorCut{0, 3, 0, 2}};
  const kernels::TensorPart rows_behind_others{.shape = {16, 3},
                                               .cut = kernels::TensorCut{0, 3, 1, 2, /*lead=*/4}};
  const kernels::TensorPart columns_behind_others{
      .shape = {3, 12}, .cut = kernels::TensorCut{1, 1, 1, 2, /*lead=*/8}};
  for (auto part : {rows, columns, bias, rows_behind_others, columns_behind_others}) {
    const auto total = c10::multiply_integers(part.shape);
    const auto whole = at::arange(total).view(part.shape);
    const auto own = kernels::take_cut(*part.cut, whole).reshape({-1});
    for (part.first = 0; part.first <= own.numel(); ++part.first) {
      for (int64_t count = 0; part.first + count <= own.numel(); ++count) {
        int64_t next = part.first;
        for (const auto& box : boxes_of_part(part, count)) {
          auto values = whole;
          for (size_t d = 0; d < part.shape.size(); ++d) {
            values = values.narrow(static_cast<int64_t>(d), box.offset[d], box.size[d]);
          }
          ASSERT_TRUE(values.reshape({-1}).equal(own.narrow(0, next, values.numel())));
          next += values.numel();
        }
        EXPECT_EQ(next, part.first + count);
      }
    }
  }
  const kernels::TensorPart blocks_of_columns{.shape = {3, 8},
                                              .cut = kernels::TensorCut{1, 2, 0, 2}};
  EXPECT_THROW(boxes_of_part(blocks_of_columns, 12), Error);
}

TEST(SlicesTest, KeysTellSlicesApart) {
  EXPECT_EQ(slice_key("head.weight", {3, 5}, {{0, 0}, {3, 5}}), "head.weight");
  EXPECT_EQ(slice_key("head.weight", {3, 5}, {{1, 0}, {2, 5}}), "head.weight@1,0");
}

}  // namespace
}  // namespace fovea::checkpoint
