#include "fovea/kernels/elementwise/drop.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/core/error.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using kernels::DropKey;

DropKey key(const at::Tensor& rows, uint32_t step = 5) {
  return {.key = philox_key(42, "blocks.1.mlp.drop1"), .step = step, .rows = rows};
}

at::Tensor rows_of(std::vector<int64_t> rows) { return at::tensor(rows, at::kLong); }

TEST(DropTest, MaskFollowsTheNoteWordByWord) {
  // More elements than one vectorised block of 256, and a row beyond 2^32.
  const auto rows = rows_of({0, 1, 77, (int64_t{1} << 32) + 3});
  const double rate = 0.3;
  const auto threshold = static_cast<uint32_t>(std::llround(rate * 0x1p32));
  const auto how = key(rows);
  for (const int64_t elements : {1, 3, 4, 255, 256, 257, 1030}) {
    const auto mask = kernels::drop_mask(how, elements, rate);
    ASSERT_EQ(mask.sizes(), (std::vector<int64_t>{4, elements}));
    ASSERT_EQ(mask.scalar_type(), at::kFloat);
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t e = 0; e < elements; ++e) {
        const auto word = reference::drop_word(how.key, how.step, rows[b].item<int64_t>(), e);
        const float expected = word >= threshold ? static_cast<float>(1.0 / (1.0 - rate)) : 0.0f;
        ASSERT_EQ(mask.const_data_ptr<float>()[b * elements + e], expected)
            << "row " << b << ", element " << e << " of " << elements;
      }
    }
  }
}

TEST(DropTest, RateOfDroppedElementsIsTheRate) {
  constexpr int64_t kCount = 1 << 20;
  for (const double rate : {0.05, 0.5, 0.9}) {
    const auto mask = kernels::drop_mask(key(rows_of({3})), kCount, rate);
    const double dropped = (mask == 0).sum().item<double>() / kCount;
    // Five standard deviations of a binomial.
    EXPECT_NEAR(dropped, rate, 5 * std::sqrt(rate * (1 - rate) / kCount));
  }
}

TEST(DropTest, MaskIsEqualForAnyBatchSplit) {
  const auto whole = kernels::drop_mask(key(at::arange(6)), 300, 0.5);
  const auto first = kernels::drop_mask(key(rows_of({0, 1})), 300, 0.5);
  const auto rest = kernels::drop_mask(key(rows_of({2, 3, 4, 5})), 300, 0.5);
  support::expect_same_bits(at::cat({first, rest}), whole, "split batch");
  const auto reversed = kernels::drop_mask(key(rows_of({5, 4, 3, 2, 1, 0})), 300, 0.5);
  support::expect_same_bits(reversed.flip(0), whole, "batch in another order");
}

TEST(DropTest, MaskTakesRowsWithStrides) {
  const auto strided = at::arange(12).slice(0, 0, 12, 2);  // 0, 2, ... 10
  support::expect_same_bits(kernels::drop_mask(key(strided), 33, 0.5),
                            kernels::drop_mask(key(strided.contiguous()), 33, 0.5), "mask");
}

TEST(DropTest, SeedNameStepAndRowEachChangeTheMask) {
  const auto rows = rows_of({1});
  const auto base = kernels::drop_mask(key(rows), 256, 0.5);
  const auto differs = [&](const DropKey& other) {
    return (kernels::drop_mask(other, 256, 0.5) != base).sum().item<int64_t>();
  };
  // Independent fair coins differ in 128 of 256 places, give or take 8; 80 is six deviations off.
  EXPECT_GT(differs(key(rows, 6)), 80);
  EXPECT_GT(differs(key(rows_of({2}))), 80);
  auto other = key(rows);
  other.key = philox_key(43, "blocks.1.mlp.drop1");
  EXPECT_GT(differs(other), 80);
  other.key = philox_key(42, "blocks.2.mlp.drop1");
  EXPECT_GT(differs(other), 80);
}

TEST(DropTest, MaskIsEqualForAnyNumberOfThreads) {
  support::expect_same_bits_for_any_threads(
      [] { return std::vector<at::Tensor>{kernels::drop_mask(key(at::arange(64)), 5000, 0.1)}; });
}

TEST(DropTest, DropoutMultipliesByTheMask) {
  const auto rows = rows_of({4, 9});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto x = support::random({2, 3, 50}, dtype, 1);
    const auto mask = kernels::drop_mask(key(rows), 150, 0.25).view({2, 3, 50}).to(dtype);
    support::expect_same_bits(kernels::dropout(x, 0.25, key(rows)), x * mask, "dropout");
    const auto result = support::gradients(
        [&](const std::vector<at::Tensor>& in) { return kernels::dropout(in[0], 0.25, key(rows)); },
        {x});
    EXPECT_TRUE(result.inputs[0].masked_select(mask == 0).eq(0).all().item<bool>());
    EXPECT_FALSE(result.inputs[0].masked_select(mask != 0).eq(0).any().item<bool>());
  }
}

TEST(DropTest, DropPathKeepsOrDropsWholeSamples) {
  const auto rows = at::arange(64);
  const auto mask = kernels::drop_path_mask(at::ones({64, 5, 3}), 0.5, key(rows));
  support::expect_same_bits(mask, kernels::drop_mask(key(rows), 1, 0.5).view({64}), "drop path");
  EXPECT_GT(mask.eq(0).sum().item<int64_t>(), 0);
  EXPECT_LT(mask.eq(0).sum().item<int64_t>(), 64);
}

TEST(DropTest, RateZeroReturnsTheInputItself) {
  const auto x = at::ones({2, 3});
  EXPECT_TRUE(kernels::dropout(x, 0.0, {}).is_same(x));
}

TEST(DropTest, EmptyBatchStaysEmpty) {
  const auto rows = at::empty({0}, at::kLong);
  EXPECT_EQ(kernels::dropout(at::empty({0, 7}), 0.5, key(rows)).sizes(),
            (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(kernels::drop_path_mask(at::empty({0, 7}), 0.5, key(rows)).sizes(),
            (std::vector<int64_t>{0}));
}

TEST(DropTest, WrongRowsAndRatesAreRefused) {
  EXPECT_THROW(kernels::dropout(at::ones({3, 2}), 0.5, key(at::arange(2))), Error);
  EXPECT_THROW(kernels::dropout(at::ones({3, 2}), 0.5, {}), Error);
  EXPECT_THROW(kernels::drop_mask(key(at::arange(2)), 4, 1.0), Error);
  EXPECT_THROW(kernels::drop_mask(key(at::arange(2)), 4, -0.1), Error);
}

TEST(DropTest, MetaRowsGiveTheShape) {
  const auto rows = at::empty({3}, at::TensorOptions().dtype(at::kLong).device(at::kMeta));
  EXPECT_EQ(kernels::drop_mask(key(rows), 10, 0.5).sizes(), (std::vector<int64_t>{3, 10}));
}

TEST(PatchKeepTest, KeepsTheSmallestWords) {
  constexpr int64_t kTokens = 300, kKeep = 120;
  const auto rows = rows_of({0, 8, 5});
  const auto how = key(rows);
  const auto by_word = kernels::patch_keep_indices(how, kTokens, kKeep, /*ordered=*/false);
  const auto by_place = kernels::patch_keep_indices(how, kTokens, kKeep, /*ordered=*/true);
  for (int64_t b = 0; b < 3; ++b) {
    std::vector<int64_t> tokens(kTokens);
    std::iota(tokens.begin(), tokens.end(), 0);
    std::stable_sort(tokens.begin(), tokens.end(), [&](int64_t left, int64_t right) {
      const int64_t row = rows[b].item<int64_t>();
      return reference::drop_word(how.key, how.step, row, left) <
             reference::drop_word(how.key, how.step, row, right);
    });
    tokens.resize(kKeep);
    support::expect_same_bits(by_word[b], rows_of(tokens), "order of words");
    std::sort(tokens.begin(), tokens.end());
    support::expect_same_bits(by_place[b], rows_of(tokens), "order of places");
  }
}

TEST(PatchKeepTest, KeepingAllIsEveryToken) {
  support::expect_same_bits(kernels::patch_keep_indices(key(rows_of({2})), 17, 17, true)[0],
                            at::arange(17), "all tokens");
}

TEST(PatchKeepTest, WrongCountsAreRefused) {
  EXPECT_THROW(kernels::patch_keep_indices(key(rows_of({2})), 17, 0, true), Error);
  EXPECT_THROW(kernels::patch_keep_indices(key(rows_of({2})), 17, 18, true), Error);
}

}  // namespace
}  // namespace fovea
