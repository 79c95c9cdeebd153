#include "fovea/kernels/tensor_part.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>
#include <gtest/gtest.h>

namespace fovea::kernels {
namespace {

// Every rank's own of q, k and v.
TEST(TensorPartTest, ACutIsOfEveryBlock) {
  const TensorPart part{.shape = {12, 2}, .cut = TensorCut{.blocks = 3, .index = 1, .count = 2}};
  EXPECT_EQ(cut_shape(part), (std::vector<int64_t>{6, 2}));
  const auto rows = indices_in_whole(part, 0);
  EXPECT_TRUE(rows.equal(at::tensor({2, 3, 6, 7, 10, 11}, at::kLong)));
  EXPECT_TRUE(indices_in_whole(part, 1).equal(at::arange(2)));
  const auto whole = at::arange(24).view({12, 2});
  EXPECT_TRUE(take_cut(*part.cut, whole).equal(whole.index_select(0, rows)));
}

// What all ranks of both axes have is the whole, wherever a range ends.
TEST(TensorPartTest, PartsAddUpToTheWhole) {
  const auto whole = at::arange(1, 4 * 6 * 2 + 1).view({4, 6, 2});
  for (const int64_t dim : {0, 1}) {
    auto sum = at::zeros_like(whole);
    for (int64_t index = 0; index < 2; ++index) {
      TensorPart part{.shape = {4, 6, 2}, .cut = TensorCut{dim, dim == 0 ? 2 : 1, index, 2}};
      const auto size = c10::multiply_integers(cut_shape(part));
      for (const int64_t end : {int64_t{7}, int64_t{7}, size}) {  // the second has nothing
        const auto values = take_part(part, whole, {end - part.first});
        const auto spread = spread_part(part, values);
        EXPECT_EQ(spread.ne(0).sum().item<int64_t>(), values.numel());
        sum.add_(spread);
        part.first = end;
      }
    }
    EXPECT_TRUE(sum.equal(whole));
  }
}

}  // namespace
}  // namespace fovea::kernels
