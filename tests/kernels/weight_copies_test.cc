#include "fovea/kernels/linear/weight_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/product_sizes.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/kernels/linear/product_path.h"
#include "tests/support/close.h"
#include "tests/support/packed_weight.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

namespace cpu = kernels::cpu;
using kernels::own_weight;
using support::random;

// Two weights in a flat buffer, as an optimizer has them.
struct FlatWeights {
  at::Tensor flat = random({96}, at::kFloat, 1);
  at::Tensor first = flat.narrow(0, 0, 40).view({5, 8}).detach().set_requires_grad(true);
  at::Tensor second = flat.narrow(0, 48, 48).view({6, 8}).detach().set_requires_grad(true);
  std::optional<kernels::WeightCopies> copies;

  FlatWeights() {
    copies.emplace(std::vector<kernels::WeightCopies::Place>{{first, 0}, {second, 48}}, 96);
  }
};

// How bfloat16 is multiplied on this processor, with the paths that are forced, by weights whose
// strips are kept.
kernels::ProductPath bfloat16_path() {
  return kernels::product_path({.dtype = at::kBFloat16,
                                .has_kernels = false,
                                .M = 90,
                                .N = 70,
                                .K = 40,
                                .is_aligned = false,
                                .is_on_cpu = true,
                                .has_strips = true});
}
bool takes_panels() { return kernels::is_of_panels(bfloat16_path()); }
constexpr auto kNoPanels = "skipped: no AVX-512 BF16, or another path of linear layers is forced";
constexpr auto kNoRoundedStrips =
    "skipped: bfloat16 is multiplied otherwise than as float32 by strips";

void expect_cast(const at::Tensor& weight) {
  support::expect_same_bits(own_weight(weight, at::kBFloat16), weight.detach().to(at::kBFloat16),
                            "weight");
}

TEST(WeightCopiesTest, AreMadeOnceAfterEachChange) {
  FlatWeights weights;
  EXPECT_FALSE(weights.copies->flat().defined()) << "nobody has asked";
  expect_cast(weights.first);
  const auto copy = own_weight(weights.first, at::kBFloat16);
  EXPECT_TRUE(copy.is_alias_of(weights.copies->flat()));
  EXPECT_FALSE(copy.requires_grad());
  EXPECT_EQ(weights.copies->are_current(), (std::vector<bool>{true, false}));
  copy.zero_();  // a copy that is current is given as it is
  support::expect_same_bits(own_weight(weights.first, at::kBFloat16),
                            at::zeros({5, 8}, at::kBFloat16), "copy");
  {
    const at::NoGradGuard no_grad;
    weights.first.mul_(3);
  }
  EXPECT_EQ(weights.copies->are_current(), (std::vector<bool>{false, false}));
  expect_cast(weights.first);
  expect_cast(weights.second);
}

TEST(WeightCopiesTest, ThoseThatWereMadeCanBeMadeAgain) {
  FlatWeights weights;
  expect_cast(weights.first);
  {
    const at::NoGradGuard no_grad;
    weights.first.mul_(3);
    weights.second.mul_(3);
  }
  weights.copies->make_current();
  EXPECT_EQ(weights.copies->are_current(), (std::vector<bool>{true, false}));
  support::expect_same_bits(weights.copies->flat().narrow(0, 0, 40).view({5, 8}),
                            weights.first.detach().to(at::kBFloat16), "copy");
}

TEST(WeightCopiesTest, OtherDtypesAndOtherTensorsAreCast) {
  FlatWeights weights;
  EXPECT_TRUE(own_weight(weights.first, at::kFloat).is_same(weights.first));
  support::expect_same_bits(own_weight(weights.first, at::kHalf).detach(),
                            weights.first.detach().to(at::kHalf), "float16");
  const auto rows = weights.first.detach().narrow(0, 0, 2);
  expect_cast(rows);
  EXPECT_FALSE(weights.copies->flat().defined());
}

// What has the values of a weight under versions of its own, or is a weight of its own.
TEST(WeightCopiesTest, TensorsMadeOfAWeightHaveNone) {
  FlatWeights weights;
  expect_cast(weights.first);
  const auto flat = weights.copies->flat();
  for (const auto& tensor : {weights.first.detach(), weights.first.data(), weights.first.alias(),
                             weights.first.variable_data(), weights.first.clone()}) {
    EXPECT_FALSE(own_weight(tensor, at::kBFloat16).is_alias_of(flat));
  }
  auto other = random({5, 8}, at::kFloat, 4);
  other.set_data(weights.first);
  EXPECT_FALSE(own_weight(other, at::kBFloat16).is_alias_of(flat));
  EXPECT_TRUE(own_weight(weights.first, at::kBFloat16).is_alias_of(flat));
}

TEST(WeightCopiesTest, ThreadsThatAskAtOnceGetOneCopy) {
  FlatWeights weights;
  const at::NoGradGuard no_grad;
  for (int round = 0; round < 20; ++round) {
    weights.first.add_(1);
    std::vector<at::Tensor> seen(4);
    std::vector<std::thread> threads;
    for (auto& one : seen) {
      threads.emplace_back([&one, &weights] { one = own_weight(weights.first, at::kBFloat16); });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& one : seen) {
      EXPECT_TRUE(one.is_alias_of(weights.copies->flat()));
      support::expect_same_bits(one, weights.first.detach().to(at::kBFloat16), "copy");
    }
  }
}

TEST(WeightCopiesTest, AWeightThatLeavesTheBufferIsCast) {
  FlatWeights weights;
  expect_cast(weights.first);
  weights.first.set_data(random({5, 8}, at::kFloat, 7));
  expect_cast(weights.first);
  EXPECT_FALSE(own_weight(weights.first, at::kBFloat16).is_alias_of(weights.copies->flat()));
}

TEST(WeightCopiesTest, StayCurrentWhereThePassThatChangesWeightsWritesThem) {
  FlatWeights weights;
  expect_cast(weights.first);
  const auto were_current = weights.copies->are_current();
  const at::NoGradGuard no_grad;
  weights.flat.mul_(-1);  // as an optimizer does, behind the versions of its weights
  weights.copies->flat().copy_(weights.flat);
  for (auto* weight : {&weights.first, &weights.second}) {
    weight->unsafeGetTensorImpl()->bump_version();
  }
  weights.copies->stay_current(were_current);
  EXPECT_EQ(weights.copies->are_current(), (std::vector<bool>{true, false}));
  expect_cast(weights.first);
  expect_cast(weights.second);
}

TEST(WeightCopiesTest, BelongToTheLastOwnerAndEndWithIt) {
  FlatWeights weights;
  {
    const kernels::WeightCopies other({{weights.first, 0}}, 96);
    EXPECT_TRUE(own_weight(weights.first, at::kBFloat16).is_alias_of(other.flat()));
    EXPECT_FALSE(weights.copies->flat().defined());
  }
  expect_cast(weights.first);
  weights.copies.reset();
  expect_cast(weights.second);
}

TEST(WeightCopiesTest, OfAModelAreMadeOnceAndEachInItsPlace) {
  const std::vector weights = {random({5, 7}, at::kFloat, 1), random({3, 2}, at::kDouble, 2),
                               random({4, 6}, at::kFloat, 3).t(), random({2, 9}, at::kFloat, 4)};
  const auto copies = kernels::WeightCopies::of_model(weights);
  for (int round = 0; round < 2; ++round) {
    for (const auto& weight : weights) expect_cast(weight);
  }
  const auto is_copied = [&](size_t i) {
    return own_weight(weights[i], at::kBFloat16).is_alias_of(copies->flat());
  };
  EXPECT_TRUE(is_copied(0));
  EXPECT_FALSE(is_copied(1)) << "float64";
  EXPECT_FALSE(is_copied(2)) << "not contiguous";
  EXPECT_TRUE(is_copied(3));
  EXPECT_EQ(copies->are_current(), (std::vector<bool>{true, true}));
}

// An evaluation may be the first to ask; training then writes to the same copies.
TEST(WeightCopiesTest, AreMadeInInferenceModeToo) {
  FlatWeights weights;
  {
    const c10::InferenceMode guard;
    expect_cast(weights.first);
  }
  const at::NoGradGuard no_grad;
  weights.first.add_(1);
  expect_cast(weights.first);
  EXPECT_FALSE(weights.copies->flat().is_inference());
}

TEST(WeightCopiesTest, LinearGivesTheBitsOfCasts) {
  FlatWeights weights;
  const auto x = random({3, 8}, at::kBFloat16, 2).set_requires_grad(true);
  const auto dy = random({3, 5}, at::kBFloat16, 3);
  const auto run = [&] {
    x.mutable_grad().reset();
    weights.first.mutable_grad().reset();
    const auto y = kernels::linear(x, weights.first, {});
    y.backward(dy);
    return std::vector<at::Tensor>{y.detach(), x.grad(), weights.first.grad()};
  };
  const auto kept = run();
  ASSERT_TRUE(weights.copies->flat().defined());
  weights.copies.reset();
  const auto cast = run();
  for (size_t i = 0; i < cast.size(); ++i) {
    support::expect_same_bits(kept[i], cast[i], "result " + std::to_string(i));
  }
}

// On the path that takes them; elsewhere nobody asks.
TEST(WeightCopiesTest, StripsOfALoadedModelAreMadeAgainAfterAChange) {
  const auto weight = random({70, 40}, at::kFloat, 1).set_requires_grad(true);
  EXPECT_EQ(kernels::kept_strips(weight), nullptr);
  {
    const auto copies = kernels::WeightCopies::of_model({weight});
    const auto* strips = kernels::kept_strips(weight);
    ASSERT_NE(strips, nullptr);
    EXPECT_EQ(kernels::kept_strips(weight), strips);
    EXPECT_EQ(strips[0], weight[0][0].item<float>());
    {
      const at::NoGradGuard no_grad;
      weight.mul_(3);
    }
    EXPECT_EQ(kernels::kept_strips(weight)[0], weight[0][0].item<float>());
    const auto x = random({3, 40}, at::kFloat, 2);
    support::expect_same_bits(kernels::linear(x, weight, {}).detach(),
                              kernels::linear(x, weight.detach().clone(), {}), "y");
    EXPECT_FALSE(copies->flat().defined()) << "nobody has asked for bfloat16";
  }
  EXPECT_EQ(kernels::kept_strips(weight), nullptr);
}

// Of a weight with strips that are kept, and of a copy in bfloat16 that has none.
struct RoundedCase {
  at::Tensor x, weight, bias, residual;

  explicit RoundedCase(const cpu::ProductSizes& sizes)
      : x(random({sizes.rows, sizes.depth}, at::kBFloat16, 1)),
        weight(random({sizes.columns, sizes.depth}, at::kFloat, 2).set_requires_grad(true)),
        bias(random({sizes.columns}, at::kBFloat16, 3)),
        residual(random({sizes.rows, sizes.columns}, at::kBFloat16, 4)) {}

  void expect_bits_of_a_cast() const {
    const at::NoGradGuard no_grad;
    const auto cast = weight.detach().to(at::kBFloat16);
    const auto y = kernels::linear(x, cast, bias);
    support::expect_same_product(kernels::linear(x, weight, bias), y, "y");
    support::expect_same_product(kernels::linear(x, weight, bias, residual),
                                 kernels::linear(x, cast, bias, residual), "with a residual");
    const int64_t last = x.size(0) - 1;
    support::expect_same_product(kernels::linear(x.narrow(0, last, 1), weight, bias),
                                 y.narrow(0, last, 1), "a row alone");
  }
};

TEST(WeightCopiesTest, RoundedStripsOfALoadedModelHaveTheBitsOfACast) {
  if (bfloat16_path() != kernels::ProductPath::kRoundedStrips) {
    GTEST_SKIP() << kNoRoundedStrips;
  }
  // Of a part and of several, in depth and across; with rows and columns that fill no block.
  for (const auto& sizes :
       {cpu::ProductSizes{1, 1, 1}, {90, 70, 40}, {7, 33, 900}, {301, 384, 385}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", sizes.rows, sizes.columns, sizes.depth));
    const RoundedCase of(sizes);
    EXPECT_EQ(kernels::kept_rounded_strips(of.weight), nullptr);
    const auto copies = kernels::WeightCopies::of_model({of.weight});
    ASSERT_NE(kernels::kept_rounded_strips(of.weight), nullptr);
    of.expect_bits_of_a_cast();
    support::expect_same_bits_for_any_threads([&] {
      return std::vector<at::Tensor>{kernels::linear(of.x, of.weight, of.bias).detach()};
    });
    {
      const at::NoGradGuard no_grad;
      of.weight.mul_(3);
    }
    of.expect_bits_of_a_cast();
    EXPECT_FALSE(copies->flat().defined()) << "nobody has asked for the rows themselves";
  }
}

// With the features before it, which gradients need, and without.
TEST(WeightCopiesTest, RoundedStripsGiveGelu) {
  if (bfloat16_path() != kernels::ProductPath::kRoundedStrips) {
    GTEST_SKIP() << kNoRoundedStrips;
  }
  const RoundedCase of({301, 384, 40});
  const auto copies = kernels::WeightCopies::of_model({of.weight});
  const kernels::HiddenActivation gelu{};
  for (const bool with_gradient : {false, true}) {
    const at::AutoGradMode mode(with_gradient);
    const auto y = kernels::linear(of.x, of.weight, of.bias).detach();
    const auto hidden = kernels::linear_to_activation(of.x, gelu, of.weight, of.bias);
    ASSERT_TRUE(hidden.after.defined());
    if (with_gradient) support::expect_same_bits(hidden.before.detach(), y, "before");
    support::expect_close(hidden.after.detach(), kernels::activate(y, kernels::Activation::kGelu),
                          at::kBFloat16, "after");
  }
}

// They take the place of the weight in bfloat16.
TEST(WeightCopiesTest, PanelsOfALoadedModelAreMadeAgainAfterAChange) {
  if (!takes_panels()) GTEST_SKIP() << kNoPanels;
  const auto weight = random({70, 40}, at::kFloat, 1).set_requires_grad(true);
  const auto x = random({90, 40}, at::kBFloat16, 2);
  const auto expect_bits_of_a_cast = [&] {
    support::expect_same_bits(kernels::linear(x, weight, {}).detach(),
                              kernels::linear(x, weight.detach().to(at::kBFloat16), {}).detach(),
                              "y");
  };
  EXPECT_EQ(kernels::kept_panels(weight), nullptr);
  {
    const auto copies = kernels::WeightCopies::of_model({weight});
    const auto* panels = kernels::kept_panels(weight);
    ASSERT_NE(panels, nullptr);
    EXPECT_EQ(kernels::kept_panels(weight), panels);
    expect_bits_of_a_cast();
    {
      const at::NoGradGuard no_grad;
      weight.mul_(3);
    }
    expect_bits_of_a_cast();
    EXPECT_FALSE(copies->flat().defined()) << "nobody has asked for the rows themselves";
  }
  EXPECT_EQ(kernels::kept_panels(weight), nullptr);
}

// A head's product of one sample, and of many.
TEST(WeightCopiesTest, FewRowsOfALoadedModelHaveTheBitsOfMany) {
  if (!takes_panels()) GTEST_SKIP() << kNoPanels;
  const auto weight = random({70, 40}, at::kFloat, 1), bias = random({70}, at::kFloat, 3);
  const auto x = random({90, 40}, at::kBFloat16, 2);
  const auto copies = kernels::WeightCopies::of_model({weight, bias});
  const auto all = kernels::linear(x, weight, bias);
  for (const int64_t rows : {1, 2, 7, 33}) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    support::expect_same_bits(kernels::linear(x.narrow(0, 5, rows), weight, bias),
                              all.narrow(0, 5, rows), "y");
  }
}

// A convolution's weight is multiplied as rows, which are a view of it.
TEST(WeightCopiesTest, TheRowsOfAConvolutionsWeightHaveItsCopies) {
  const auto weight = random({70, 3, 4, 5}, at::kFloat, 1).set_requires_grad(true);
  const auto copies = kernels::WeightCopies::of_model({weight});
  const auto x = random({3, 60}, at::kFloat, 2);
  for (int change = 0; change < 2; ++change) {
    const auto rows = weight.flatten(1);
    const auto* strips = kernels::kept_strips(rows);
    ASSERT_NE(strips, nullptr);
    EXPECT_EQ(kernels::kept_strips(weight.flatten(1)), strips);
    EXPECT_EQ(strips[0], weight.flatten()[0].item<float>());
    const auto alone = rows.detach().clone();
    support::expect_same_bits(kernels::linear(x, rows, {}).detach(), kernels::linear(x, alone, {}),
                              "y");
    expect_cast(rows);
    EXPECT_TRUE(own_weight(rows, at::kBFloat16).is_alias_of(copies->flat()));
    const at::NoGradGuard no_grad;
    weight.mul_(3);
  }
}

TEST(WeightCopiesTest, OtherViewsOfAConvolutionsWeightHaveNone) {
  const auto weight = random({6, 3, 2, 2}, at::kFloat, 1);
  const auto copies = kernels::WeightCopies::of_model({weight});
  ASSERT_NE(kernels::kept_strips(weight.flatten(1)), nullptr);
  for (const auto& view :
       {weight.flatten(0, 2), weight.flatten(1).narrow(0, 0, 3), weight.narrow(0, 0, 3).flatten(1),
        weight.flatten(1).narrow(1, 0, 6), weight.flatten(1).t(),
        weight.permute({0, 2, 3, 1}).flatten(1), weight.detach().clone().flatten(1)}) {
    EXPECT_EQ(kernels::kept_strips(view), nullptr) << view.sizes();
  }
}

TEST(WeightCopiesTest, AnOptimizersKeepNoStrips) {
  const FlatWeights weights;
  EXPECT_EQ(kernels::kept_strips(weights.first), nullptr);
}

TEST(WeightCopiesTest, WeightsOutsideOfTheBufferAreRefused) {
  const auto weight = random({5, 8}, at::kFloat, 1);
  EXPECT_THROW(kernels::WeightCopies({{weight, 60}}, 96), Error);
  EXPECT_THROW(kernels::WeightCopies({{weight.to(at::kDouble), 0}}, 96), Error);
}

}  // namespace
}  // namespace fovea
