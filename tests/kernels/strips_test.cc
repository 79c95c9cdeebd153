// Products on strips by themselves; through linear its own tests see them where they are chosen.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/gelu.h"
#include "fovea/kernels/cpu/strip_product.h"
#include "fovea/kernels/kernel_paths.h"
#include "tests/support/close.h"
#include "tests/support/stored_factor.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

namespace cpu = kernels::cpu;
using support::random;

// Of a part of a strip, a block, a row and of several; of one stretch of depth and of several,
// whole and not; in one part and in several.
const std::vector<cpu::ProductSizes> kStripCases = {{1, 1, 1},       {12, 32, 4},    {13, 33, 5},
                                                    {1, 1000, 64},   {150, 48, 385}, {300, 31, 770},
                                                    {433, 130, 1100}};

cpu::FloatFactor strip_factor_of(const support::StoredFactor& stored) {
  return {stored.whole.const_data_ptr<float>() + 2, stored.stride(), stored.is_transposed};
}

// What is added to a product, [columns] and [rows, columns + 5] from the second column on, or
// undefined.
struct AddedToProduct {
  at::Tensor bias = {}, residual = {};
};

// -> [rows, columns]; a column more is there, to see that nobody writes to it.
at::Tensor multiply_strips(const support::StoredFactor& a, const support::StoredFactor& b,
                           const AddedToProduct& added, bool is_packed_before) {
  const auto rows = a.values.size(0), depth = a.values.size(1), columns = b.values.size(1);
  cpu::AlignedBuffer<float> packed;
  if (is_packed_before) {
    cpu::pack_strips(strip_factor_of(b), depth, columns,
                     packed.reserve(cpu::packed_strips_size(depth, columns)));
  }
  const auto out = at::full({rows, columns + 1}, 77, at::kFloat);
  const auto& residual = added.residual;
  cpu::strip_product(
      strip_factor_of(a), strip_factor_of(b), packed.data(), {rows, columns, depth},
      {.data = out.mutable_data_ptr<float>(),
       .stride = columns + 1,
       .bias = added.bias.defined() ? added.bias.const_data_ptr<float>() : nullptr,
       .residual = residual.defined() ? residual.const_data_ptr<float>() + 1 : nullptr,
       .residual_stride = columns + 5});
  EXPECT_TRUE(out.select(1, -1).eq(77).all().item<bool>());
  return out.narrow(1, 0, columns).contiguous();
}

// Calls check(first, second) for all sizes and layouts.
template <class Check>
void for_each_strip_case(const Check& check) {
  for (const auto& sizes : kStripCases) {
    const auto a = random({sizes.rows, sizes.depth}, at::kFloat, 1);
    const auto b = random({sizes.depth, sizes.columns}, at::kFloat, 2);
    for (const bool first : {false, true}) {
      for (const bool second : {false, true}) {
        SCOPED_TRACE(fmt::format("{} x {} x {}, transposed: {}, {}", sizes.rows, sizes.columns,
                                 sizes.depth, first, second));
        check(support::StoredFactor(a, first), support::StoredFactor(b, second));
      }
    }
  }
}

at::Tensor strips_in_float64(const support::StoredFactor& a, const support::StoredFactor& b) {
  return a.values.to(at::kDouble).matmul(b.values.to(at::kDouble));
}

TEST(StripProductTest, MatchesFloat64PackedBeforeOrNot) {
  for_each_strip_case([](const support::StoredFactor& a, const support::StoredFactor& b) {
    const auto packed = multiply_strips(a, b, {}, true);
    support::expect_close(packed, strips_in_float64(a, b), at::kFloat, "product");
    support::expect_same_bits(multiply_strips(a, b, {}, false), packed, "packed on the way");
  });
}

TEST(StripProductTest, SumsBeginAtTheBiasAndAResidualIsAddedOnceTheyAreWhole) {
  for_each_strip_case([](const support::StoredFactor& a, const support::StoredFactor& b) {
    const auto rows = a.values.size(0), columns = b.values.size(1);
    const auto bias = random({columns}, at::kFloat, 3);
    const auto wide = random({rows, columns + 5}, at::kFloat, 4);
    const auto sum = multiply_strips(a, b, {bias}, true);
    support::expect_close(sum, strips_in_float64(a, b) + bias, at::kFloat, "sum");
    support::expect_same_bits(multiply_strips(a, b, {bias, wide}, false),
                              sum + wide.narrow(1, 1, columns), "sum and residual");
  });
}

TEST(StripProductTest, GeluIsThatOfTheWholeSumsToTheBit) {
  if (kernels::kernel_paths().level(kernels::KernelOp::kLinear) == kernels::KernelPath::kBaseline) {
    GTEST_SKIP() << "skipped: strips are not taken at the baseline, and GELU may be of another";
  }
  for_each_strip_case([](const support::StoredFactor& a, const support::StoredFactor& b) {
    const auto rows = a.values.size(0), depth = a.values.size(1), columns = b.values.size(1);
    const auto sums = multiply_strips(a, b, {}, true);
    auto expected = at::zeros({rows, columns}, at::kFloat);
    cpu::gelu(sums.const_data_ptr<float>(), sums.numel(), expected.mutable_data_ptr<float>());
    const auto out = at::zeros({rows, columns}, at::kFloat), gelu = at::zeros_like(out);
    for (const auto& to : {out, gelu}) {  // beside the sums, and instead of them
      cpu::strip_product(strip_factor_of(a), strip_factor_of(b), nullptr, {rows, columns, depth},
                         {.data = to.mutable_data_ptr<float>(),
                          .stride = columns,
                          .gelu = gelu.mutable_data_ptr<float>()});
      support::expect_same_bits(gelu, expected, "gelu");
    }
    support::expect_same_bits(out, sums, "sums");
  });
}

// Its values are those of the float32 that it is read as; packed before, and on the way.
TEST(StripProductTest, ASecondFactorOfBfloat16IsReadAsItLies) {
  for (const auto& sizes : kStripCases) {
    const auto a = random({sizes.rows, sizes.depth}, at::kFloat, 1);
    const auto b = random({sizes.depth, sizes.columns + 3}, at::kBFloat16, 2);
    const auto within = b.narrow(1, 2, sizes.columns);  // of longer rows
    const auto expected =
        multiply_strips(support::StoredFactor(a, false),
                        support::StoredFactor(within.to(at::kFloat), false), {}, false);
    const auto* bits = static_cast<const uint16_t*>(within.const_data_ptr());
    const cpu::FloatFactor second{nullptr, sizes.columns + 3, false, bits};
    cpu::AlignedBuffer<float> packed;
    cpu::pack_strips(second, sizes.depth, sizes.columns,
                     packed.reserve(cpu::packed_strips_size(sizes.depth, sizes.columns)));
    for (const float* strips :
         {static_cast<const float*>(nullptr), static_cast<const float*>(packed.data())}) {
      const auto out = at::zeros({sizes.rows, sizes.columns}, at::kFloat);
      cpu::strip_product({a.const_data_ptr<float>(), sizes.depth, false}, second, strips, sizes,
                         {.data = out.mutable_data_ptr<float>(), .stride = sizes.columns});
      support::expect_same_bits(out, expected, "product");
    }
  }
}

TEST(StripProductTest, ThreadsChangeNoBit) {
  for_each_strip_case([](const support::StoredFactor& a, const support::StoredFactor& b) {
    support::expect_same_bits_for_any_threads(
        [&] {
          return std::vector<at::Tensor>{multiply_strips(a, b, {}, false),
                                         multiply_strips(a, b, {}, true)};
        },
        {2, 5});
  });
}

// Nothing but its own row and column: not what lies beside them, nor what fills a block.
TEST(StripProductTest, ANanStaysInItsRowAndColumn) {
  auto a = random({40, 70}, at::kFloat, 1), b = random({70, 50}, at::kFloat, 2);
  a[17][3] = NAN;
  b[69][41] = NAN;
  const auto out =
      multiply_strips(support::StoredFactor(a, false), support::StoredFactor(b, true), {}, false);
  const auto expected = at::zeros({40, 50}, at::kBool);
  expected.select(0, 17).fill_(true);
  expected.select(1, 41).fill_(true);
  EXPECT_TRUE(out.isnan().equal(expected));
}

}  // namespace
}  // namespace fovea
