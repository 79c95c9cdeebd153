// Products of 8-bit integers: in each form that this processor has, and through linear.
#include "tests/reference/int8.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/gelu.h"
#include "fovea/kernels/cpu/int8_product.h"
#include "fovea/kernels/cpu/product_sizes.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "tests/support/close.h"
#include "tests/support/packed_weight.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

namespace cpu = kernels::cpu;
using support::random;

// Of a part of a strip, a block, a group and of several; of one stretch of depth and of several; in
// one part and in several.
const std::vector<cpu::ProductSizes> kInt8Cases = {{1, 1, 1},     {12, 32, 4},    {13, 33, 5},
                                                   {1, 200, 64},  {150, 48, 385}, {40, 31, 770},
                                                   {100, 96, 900}};

struct Int8Case {
  explicit Int8Case(const cpu::ProductSizes& sizes)
      : x(random({sizes.rows, sizes.depth}, at::kFloat, 1)),
        weight(random({sizes.columns, sizes.depth}, at::kFloat, 2)),
        bias(random({sizes.columns}, at::kFloat, 3)) {}

  at::Tensor x, weight, bias;
};

// Calls check(form, case) for all forms and sizes.
template <class Check>
void for_each_int8_case(const Check& check) {
  for (const auto form : cpu::int8_forms_here()) {
    for (const auto& sizes : kInt8Cases) {
      SCOPED_TRACE(fmt::format("{}: {} x {} x {}", cpu::int8_form_name(form), sizes.rows,
                               sizes.columns, sizes.depth));
      check(form, Int8Case(sizes));
    }
  }
}

// What is at a product's end besides a bias, [rows, columns] or undefined, and what rows are held
// to.
struct Int8Ends {
  at::Tensor residual = {}, gelu = {};
  std::optional<kernels::Int8Range> range = {};
};

at::Tensor multiply_int8(cpu::Int8Form form, const Int8Case& factors, const Int8Ends& ends = {}) {
  const auto& [x, weight, bias] = factors;
  auto packed =
      cpu::pack_int8_weight(form, weight.const_data_ptr<float>(), weight.size(0), weight.size(1));
  if (ends.range) packed.rows = cpu::int8_row(*ends.range);
  const int64_t M = x.size(0), N = weight.size(0);
  const auto out = at::full({M, N + 1}, 77, x.options());  // a column more is nobody's to write to
  const auto wide_gelu = at::full_like(out, 77);
  const auto& residual = ends.residual;
  kernels::in_own_type(x, [&, &x = x, &bias = bias](auto zero) {
    using Value = decltype(zero);
    cpu::int8_product(
        kernels::values_of<Value>(x), x.stride(0), M, packed, bias.const_data_ptr<float>(),
        {.data = kernels::mutable_values_of<Value>(out),
         .stride = N + 1,
         .residual = residual.defined() ? kernels::values_of<Value>(residual) : nullptr,
         .residual_stride = N,
         .gelu = ends.gelu.defined() ? kernels::mutable_values_of<Value>(wide_gelu) : nullptr});
  });
  EXPECT_TRUE(out.select(1, -1).eq(77).all().item<bool>());
  EXPECT_TRUE(wide_gelu.select(1, -1).eq(77).all().item<bool>());
  if (ends.gelu.defined()) ends.gelu.copy_(wide_gelu.narrow(1, 0, N));
  return out.narrow(1, 0, N).contiguous();
}

void expect_within(const at::Tensor& actual, const at::Tensor& expected, const at::Tensor& most) {
  const auto error = (actual.to(at::kDouble) - expected).abs();
  EXPECT_TRUE(error.le(most + 1e-5 * expected.abs() + 1e-6).all().item<bool>());
}

TEST(Int8ProductTest, IsThatOfItsCodesToTheBit) {
  for_each_int8_case([](cpu::Int8Form form, const Int8Case& factors) {
    const auto expected = reference::int8_product(factors.x, factors.weight, factors.bias);
    const auto product = multiply_int8(form, factors);
    support::expect_same_bits(product, expected.result, "product");
    support::expect_close(product, expected.in_float64, at::kFloat, "product");
    const auto exact = at::linear(factors.x.to(at::kDouble), factors.weight.to(at::kDouble),
                                  factors.bias.to(at::kDouble));
    expect_within(product, exact, expected.most_error);
  });
}

// One that is wide on one side, and one that cuts most values off.
const std::vector<kernels::Int8Range> kRowRanges = {{-0.1f, 4}, {-0.3f, 0.2f}};

TEST(Int8ProductTest, WithAGivenRangeItIsThatOfItsCodesToTheBit) {
  for_each_int8_case([](cpu::Int8Form form, const Int8Case& factors) {
    for (const auto& range : kRowRanges) {
      SCOPED_TRACE(fmt::format("{} to {}", range.least, range.largest));
      const auto expected = reference::int8_product(factors.x, factors.weight, factors.bias,
                                                    std::pair(range.least, range.largest));
      const auto product = multiply_int8(form, factors, {.range = range});
      support::expect_same_bits(product, expected.result, "product");
      support::expect_close(product, expected.in_float64, at::kFloat, "product");
      const auto held = factors.x.clamp(range.least, range.largest).to(at::kDouble);
      const auto exact =
          at::linear(held, factors.weight.to(at::kDouble), factors.bias.to(at::kDouble));
      expect_within(product, exact, expected.most_error);
    }
  });
}

TEST(Int8ProductTest, ARangeIsOfAllRowsAndValuesOutsideBecomeItsEnds) {
  for (const auto form : cpu::int8_forms_here()) {
    SCOPED_TRACE(cpu::int8_form_name(form));
    Int8Case factors({6, 40, 33});
    factors.x[0].fill_(127);
    factors.x[1].fill_(1e30f);  // whose codes have no 32-bit integer
    factors.x[2].fill_(-128);
    factors.x[3].fill_(-1e30f);
    factors.x[4][5] = NAN;
    factors.x[5][6] = INFINITY;
    const auto product = multiply_int8(form, factors, {.range = kernels::Int8Range{-128, 127}});
    support::expect_same_bits(product[1], product[0], "above");
    support::expect_same_bits(product[3], product[2], "below");
    EXPECT_TRUE(product.narrow(0, 4, 2).isnan().all().item<bool>()) << "not finite";
    const auto of_zeros = multiply_int8(form, factors, {.range = kernels::Int8Range{0, 0}});
    for (int64_t row = 0; row < 4; ++row) {
      support::expect_same_bits(of_zeros[row], factors.bias, "a range of zeros");
    }
    EXPECT_TRUE(of_zeros.narrow(0, 4, 2).isnan().all().item<bool>()) << "not finite";
  }
}

// Sums of two products of bytes, or of all, that fit into 32 bits alone.
TEST(Int8ProductTest, SumsOfTheLargestCodesAreExact) {
  for (const auto form : cpu::int8_forms_here()) {
    SCOPED_TRACE(cpu::int8_form_name(form));
    Int8Case factors({7, 40, cpu::kMostInt8Depth});
    factors.x.fill_(1);
    factors.weight.fill_(1);
    factors.weight[3].fill_(-1);
    factors.bias.zero_();
    const auto product = multiply_int8(form, factors);
    constexpr float kSum = cpu::kMostInt8Depth;
    EXPECT_NEAR(product[6][2].item<float>(), kSum, 1e-6 * kSum);
    EXPECT_NEAR(product[6][3].item<float>(), -kSum, 1e-6 * kSum);
    factors.x.neg_();
    support::expect_same_bits(multiply_int8(form, factors), product.neg(), "negative rows");
  }
  const auto weight = at::ones({1, cpu::kMostInt8Depth + 1}, at::kFloat);
  EXPECT_THROW(cpu::pack_int8_weight(cpu::Int8Form::kPairs, weight.const_data_ptr<float>(), 1,
                                     weight.size(1)),
               Error);
}

// See Note [Sums of 16 bits]: at the edges of what fits, of either sign and place in a group.
TEST(Int8ProductTest, GroupsWhosePairsFitComeFirst) {
  const auto form = cpu::Int8Form::kBytes;
  if (!cpu::has_int8_form(form)) GTEST_SKIP() << "skipped: no AVX2";
  struct Group {
    std::vector<float> codes;
    bool fits;
  };
  const std::vector<Group> groups = {{{64, 65, 0, 0}, false},   {{64, 64, -64, -64}, true},
                                     {{0, 0, -65, -64}, false}, {{127, -127, -127, 127}, true},
                                     {{-127, -2, 0, 0}, false}, {{127, 1, -127, -1}, true},
                                     {{1, 65, 65, 1}, true},    {{0, 0, 127, 2}, false}};
  constexpr int64_t kColumns = 20, kColumn = 17;  // in the second strip, beside zeros
  Int8Case factors({9, kColumns, 32});
  factors.weight.zero_();
  factors.weight.narrow(0, 0, 16).fill_(1);  // codes of 127
  std::vector<int32_t> expected;
  for (const bool fits : {true, false}) {
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].fits == fits) expected.push_back(static_cast<int32_t>(4 * i));
    }
  }
  for (int64_t k = 0; k < 32; ++k) {
    factors.weight[kColumn][k].fill_(
        groups[static_cast<size_t>(k / 4)].codes[static_cast<size_t>(k % 4)]);
  }
  const auto packed =
      cpu::pack_int8_weight(form, factors.weight.const_data_ptr<float>(), kColumns, 32);
  EXPECT_THAT(packed.num_fitting, testing::ElementsAre(0, 4));
  EXPECT_THAT(std::vector(packed.places.begin() + 8, packed.places.end()),
              testing::ElementsAreArray(expected));
  factors.x[3].fill_(255);  // the largest codes alone
  factors.x[4].fill_(-255);
  const auto reference = reference::int8_product(factors.x, factors.weight, factors.bias);
  support::expect_same_bits(multiply_int8(form, factors), reference.result, "product");
}

TEST(Int8ProductTest, ResidualAndGeluAreOfTheWholeSumsToTheBit) {
  for_each_int8_case([](cpu::Int8Form form, const Int8Case& factors) {
    const auto sums = multiply_int8(form, factors);
    const auto residual = random(sums.sizes().vec(), at::kFloat, 4);
    support::expect_same_bits(multiply_int8(form, factors, {.residual = residual}), sums + residual,
                              "sum and residual");
    const auto gelu = at::zeros_like(sums), expected = at::zeros_like(sums);
    cpu::gelu(sums.const_data_ptr<float>(), sums.numel(), expected.mutable_data_ptr<float>());
    support::expect_same_bits(multiply_int8(form, factors, {.gelu = gelu}), sums, "sums");
    support::expect_close(gelu, expected, at::kFloat, "gelu");
  });
}

// Rows are read as they are, and results rounded once.
TEST(Int8ProductTest, OfBfloat16ItIsThatOfTheSameValuesRounded) {
  for_each_int8_case([](cpu::Int8Form form, const Int8Case& factors) {
    auto narrow = factors, wide = factors;
    narrow.x = factors.x.to(at::kBFloat16);
    wide.x = narrow.x.to(at::kFloat);
    const auto sums = multiply_int8(form, wide);
    const auto product = multiply_int8(form, narrow);
    support::expect_same_bits(product, sums.to(at::kBFloat16), "product");
    const auto held = kernels::Int8Range{-0.3f, 0.2f};
    support::expect_same_bits(multiply_int8(form, narrow, {.range = held}),
                              multiply_int8(form, wide, {.range = held}).to(at::kBFloat16),
                              "of a given range");
    const auto residual = random(sums.sizes().vec(), at::kFloat, 4).to(at::kBFloat16);
    support::expect_same_bits(multiply_int8(form, narrow, {.residual = residual}),
                              (sums + residual.to(at::kFloat)).to(at::kBFloat16),
                              "sum and residual");
    const auto gelu = at::zeros_like(product), expected = at::zeros_like(sums);
    support::expect_same_bits(multiply_int8(form, narrow, {.gelu = gelu}), product, "beside GELU");
    cpu::gelu(sums.const_data_ptr<float>(), sums.numel(), expected.mutable_data_ptr<float>());
    support::expect_close(gelu, expected, at::kBFloat16, "gelu");
    const int64_t last = narrow.x.size(0) - 1;
    narrow.x = narrow.x.narrow(0, last, 1);
    support::expect_same_bits(multiply_int8(form, narrow), product.narrow(0, last, 1),
                              "a row alone");
  });
}

TEST(Int8ProductTest, NeitherThreadsNorOtherRowsChangeABit) {
  for_each_int8_case([](cpu::Int8Form form, const Int8Case& factors) {
    const auto all = multiply_int8(form, factors);
    support::expect_same_bits_for_any_threads(
        [&] { return std::vector<at::Tensor>{multiply_int8(form, factors)}; }, {2, 5});
    auto alone = factors;
    const int64_t last = factors.x.size(0) - 1;
    alone.x = factors.x.narrow(0, last, 1);
    support::expect_same_bits(multiply_int8(form, alone), all.narrow(0, last, 1), "a row alone");
  });
}

TEST(Int8ProductTest, WhatIsNotFiniteStaysInItsRowAndColumn) {
  for (const auto form : cpu::int8_forms_here()) {
    SCOPED_TRACE(cpu::int8_form_name(form));
    Int8Case factors({40, 50, 70});
    factors.x[17][3] = NAN;
    factors.x[18][69] = -INFINITY;
    factors.weight[41][69] = INFINITY;
    const auto expected = at::zeros({40, 50}, at::kBool);
    expected.narrow(0, 17, 2).fill_(true);
    expected.select(1, 41).fill_(true);
    EXPECT_TRUE(multiply_int8(form, factors).isnan().equal(expected));
    factors.x = factors.x.to(at::kBFloat16);
    EXPECT_TRUE(multiply_int8(form, factors).isnan().equal(expected)) << "bfloat16";
  }
}

TEST(Int8ProductTest, RowsOfZerosGiveTheBiasAndLargeOnesStayFinite) {
  for (const auto form : cpu::int8_forms_here()) {
    SCOPED_TRACE(cpu::int8_form_name(form));
    Int8Case factors({3, 20, 30});
    factors.x[0].zero_();
    factors.x[1].fill_(1e-40f);
    factors.weight[5].zero_();
    factors.x[2].copy_(factors.x[2].sign() * 3e38f);
    factors.weight.mul_(1e-3f);
    const auto product = multiply_int8(form, factors);
    support::expect_same_bits(product[0], factors.bias, "zeros");
    support::expect_same_bits(product[1], factors.bias, "less than a step");
    EXPECT_TRUE(product[2].isfinite().all().item<bool>());
    EXPECT_EQ(product[2][5].item<float>(), factors.bias[5].item<float>());
  }
}

// A weight of a model that is loaded.
struct Int8Layer {
  Int8Case values{{9, 48, 40}};
  at::Tensor weight = values.weight.clone().set_requires_grad(true);
  std::unique_ptr<kernels::WeightCopies> copies = kernels::WeightCopies::of_model({weight});

  at::Tensor expected() const {
    return reference::int8_product(values.x, weight.detach(), values.bias).result;
  }
  at::Tensor forward() const {
    const at::NoGradGuard no_grad;
    return kernels::linear(values.x, weight, values.bias);
  }
};

TEST(Int8ProductTest, LinearTakesCodesOfWeightsThatHaveThem) {
  Int8Layer layer;
  const auto wide = layer.forward();
  EXPECT_EQ(kernels::kept_int8(layer.weight), nullptr);
  layer.copies->use_int8(layer.weight, true);
  const auto* codes = kernels::kept_int8(layer.weight);
  ASSERT_NE(codes, nullptr);
  support::expect_same_bits(layer.forward(), layer.expected(), "product");
  {
    const at::NoGradGuard no_grad;
    const auto narrow = layer.values.x.to(at::kBFloat16);
    const auto of_narrow =
        reference::int8_product(narrow.to(at::kFloat), layer.weight.detach(),
                                layer.values.bias.to(at::kBFloat16).to(at::kFloat));
    support::expect_same_bits(kernels::linear(narrow, layer.weight, layer.values.bias),
                              of_narrow.result.to(at::kBFloat16), "product of bfloat16");
  }
  EXPECT_EQ(kernels::kept_int8(layer.weight), codes) << "made once";
  {
    const at::NoGradGuard no_grad;
    layer.weight.mul_(-3);
  }
  support::expect_same_bits(layer.forward(), layer.expected(), "of the changed weight");
  {
    const at::NoGradGuard no_grad;
    layer.weight.copy_(layer.values.weight);
  }
  layer.copies->use_int8(layer.weight, false);
  support::expect_same_bits(layer.forward(), wide, "of the weight itself");
  layer.copies->use_int8(layer.weight, true);
  layer.copies.reset();
  support::expect_same_product(layer.forward(), wide, "once nobody keeps the codes");
}

TEST(Int8ProductTest, LinearHoldsRowsToTheRangeThatTheyAreGiven) {
  Int8Layer layer;
  const auto held = reference::int8_product(layer.values.x, layer.weight.detach(),
                                            layer.values.bias, std::pair(-1.5f, 2.0f))
                        .result;
  layer.copies->hold_rows(layer.weight, kernels::Int8Range{-1.5f, 2});
  layer.copies->use_int8(layer.weight, true);
  support::expect_same_bits(layer.forward(), held, "range before the codes");
  layer.copies->hold_rows(layer.weight, std::nullopt);
  support::expect_same_bits(layer.forward(), layer.expected(), "each row's own");
  layer.copies->hold_rows(layer.weight, kernels::Int8Range{-1.5f, 2});
  support::expect_same_bits(layer.forward(), held, "range after the codes");
}

TEST(Int8ProductTest, AWatcherIsToldOfTheRowsThatAreMultiplied) {
  Int8Layer layer;
  std::vector<at::Tensor> seen;
  layer.copies->watch(layer.weight, [&](const at::Tensor& rows) { seen.push_back(rows); });
  const auto& x = layer.values.x;
  layer.forward();
  kernels::linear(x.view({3, 3, 40}), layer.weight, layer.values.bias);
  const auto before = random({9, 40}, at::kFloat, 6);
  kernels::linear_of_activation({.before = before, .after = {}}, {}, layer.weight,
                                layer.values.bias);
  ASSERT_EQ(seen.size(), 3u);
  support::expect_same_bits(seen[0], x, "rows");
  support::expect_same_bits(seen[1], x, "rows of [B, N, K]");
  support::expect_same_bits(seen[2], kernels::activate(before, kernels::Activation::kGelu),
                            "rows that an activation made");
  layer.copies->watch(layer.weight, {});
  layer.forward();
  EXPECT_EQ(seen.size(), 3u);
}

TEST(Int8ProductTest, LinearGivesResidualsGeluAndGradients) {
  Int8Layer layer;
  const auto& x = layer.values.x;
  const auto residual = random({9, 48}, at::kFloat, 4), second = random({6, 48}, at::kFloat, 5);
  const auto gradients = [&] {
    layer.weight.mutable_grad().reset();
    kernels::linear(x, layer.weight, layer.values.bias, residual).sum().backward();
    return layer.weight.grad().clone();
  };
  const auto expected_gradient = gradients();
  layer.copies->use_int8(layer.weight, true);
  support::expect_same_bits(gradients(), expected_gradient, "gradient");
  const auto y = kernels::linear(x, layer.weight, layer.values.bias, residual);
  support::expect_same_bits(y.detach(), layer.expected() + residual, "with a residual");
  const kernels::HiddenActivation gelu{};
  for (const bool with_gradient : {false, true}) {
    const at::AutoGradMode mode(with_gradient);
    const auto hidden = kernels::linear_to_activation(x, gelu, layer.weight, layer.values.bias);
    const auto out = kernels::linear_of_activation(hidden, gelu, second, {});
    const auto expected =
        at::linear(kernels::activate(layer.expected(), kernels::Activation::kGelu), second);
    support::expect_close(out.detach(), expected, at::kFloat, "feed-forward layer");
  }
}

TEST(Int8ProductTest, WeightsThatAreNotCopiedAreRefused) {
  const Int8Layer layer;
  EXPECT_THROW(layer.copies->use_int8(layer.weight.detach().clone(), true), Error);
  const auto vector = random({40}, at::kFloat, 1);
  const auto copies = kernels::WeightCopies::of_model({vector});
  EXPECT_THROW(copies->use_int8(vector, true), Error);
}

}  // namespace
}  // namespace fovea
