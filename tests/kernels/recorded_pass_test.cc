#include "fovea/kernels/recorded_pass.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/cpu/each_alone.h"
#include "fovea/kernels/cpu/own_threads.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/cpu_allocator.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/elementwise/contiguous.h"
#include "fovea/kernels/elementwise/norm.h"
#include "fovea/kernels/elementwise/residual.h"
#include "fovea/kernels/elementwise/tokens.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/kernels/linear/product_path.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "tests/support/parity.h"

namespace fovea::kernels {
namespace {

using support::expect_same_bits;
using support::random;
using ::testing::HasSubstr;

constexpr int64_t kTokens = 96, kDim = 64;

at::Tensor random_floats(const std::vector<int64_t>& sizes, uint64_t seed) {
  return random(sizes, at::kFloat, seed);
}

// A block, and what stands before and behind the blocks of a model.
struct SmallModel {
  at::Tensor prefix = random_floats({1, 1, kDim}, 1);
  at::Tensor position = random_floats({1, kTokens, kDim}, 2);
  at::Tensor norm = random_floats({kDim}, 3), shift = random_floats({kDim}, 4);
  at::Tensor qkv = random_floats({3 * kDim, kDim}, 5), qkv_bias = random_floats({3 * kDim}, 6);
  at::Tensor up = random_floats({4 * kDim, kDim}, 7), up_bias = random_floats({4 * kDim}, 8);
  at::Tensor down = random_floats({kDim, 4 * kDim}, 9), scale = random_floats({kDim}, 10);
  std::unique_ptr<WeightCopies> copies = WeightCopies::of_model({qkv, up, down});

  // x: [B, D, N], which is turned around first.
  at::Tensor forward(const at::Tensor& x) const {
    const auto patches = contiguous(x.unsqueeze(1)).squeeze(1).transpose(1, 2).contiguous();
    auto y = join_tokens(at::cat({prefix, prefix.neg()}, 1), patches, position);
    const auto normed = layer_norm(y, norm, shift, 1e-6);
    const auto qkv_rows = kernels::linear(normed, qkv, qkv_bias);
    y = add_residual(y, self_attention(qkv_rows, 2, 0.2), scale, {});
    const HiddenActivation gelu{.kind = Activation::kGelu};
    const auto hidden = linear_to_activation(y, gelu, up, up_bias);
    y = linear_of_activation(hidden, gelu, down, {}, y);
    y.mul_(0.5);  // an operator that changes what is there
    return y.softmax(-1);
  }
};

class RecordedPassTest : public ::testing::Test {
 protected:
  void SetUp() override {
    use_caching_cpu_allocator();
    if (own_dtypes().empty()) GTEST_SKIP() << "skipped: this path multiplies by a library";
  }

  // Those whose products are our own kernels'.
  static std::vector<at::ScalarType> own_dtypes() {
    std::vector<at::ScalarType> dtypes;
    if (multiplies_rows_apart(at::kFloat)) dtypes.push_back(at::kFloat);
    if (has_bfloat16_products(at::kCPU)) dtypes.push_back(at::kBFloat16);
    return dtypes;
  }

  // Recorded and confirmed, with the bits of the passes that it takes; pass: null where that fails.
  static RecordedPass::Recording record(const at::Tensor& x, RecordedPass::Forward forward) {
    auto recording = RecordedPass::record(x, forward);
    if (!recording.pass) return recording;
    recording.pass->confirm(random(x.sizes().vec(), x.scalar_type(), 71), forward);
    if (!recording.pass->is_confirmed()) {
      recording.why_not = "not confirmed";
      recording.pass.reset();
    }
    return recording;
  }
  static void expect_refusal(const at::Tensor& x, RecordedPass::Forward forward,
                             const std::string& reason) {
    const auto recording = record(x, forward);
    EXPECT_EQ(recording.pass, nullptr);
    EXPECT_THAT(recording.why_not, HasSubstr(reason));
  }

  const at::NoGradGuard no_grad_;
};

TEST_F(RecordedPassTest, HasTheBitsOfThePassForAnyThreads) {
  const SmallModel model;
  const auto forward = [&](const at::Tensor& x) { return model.forward(x); };
  for (const auto dtype : own_dtypes()) {
    const auto given = random({1, kDim, kTokens}, dtype, 1);
    const auto [result, pass, why_not] = RecordedPass::record(given, forward);
    ASSERT_NE(pass, nullptr) << why_not;
    expect_same_bits(result, forward(given), "while it is recorded");
    EXPECT_THROW(pass->replay(given), Error) << "not confirmed";
    const auto next = random({1, kDim, kTokens}, dtype, 2);
    expect_same_bits(pass->confirm(next, forward), forward(next), "while it is confirmed");
    EXPECT_TRUE(pass->is_confirmed());
    EXPECT_TRUE(pass->is_current());
    for (const int threads : {1, 2, 5}) {
      const cpu::OwnThreadsScope some(threads);
      const auto x = random({1, kDim, kTokens}, dtype, 20 + threads);
      expect_same_bits(pass->replay(x), forward(x), fmt::format("{} threads", threads));
    }
    // Cast on its way in.
    const auto wide = random_floats({1, kDim, kTokens}, 30);
    expect_same_bits(pass->replay(wide), forward(wide.to(dtype)), "an input that is cast");
  }
}

TEST_F(RecordedPassTest, ResultsAndInputsAreTheCallers) {
  const SmallModel model;
  const auto x = random({1, kDim, kTokens}, own_dtypes().front(), 1), before = x.clone();
  auto pass = record(x, [&](const at::Tensor& x) { return model.forward(x); }).pass;
  ASSERT_NE(pass, nullptr);
  const auto first = pass->replay(x), kept = first.clone();
  pass->replay(random_floats({1, kDim, kTokens}, 2));
  pass.reset();
  expect_same_bits(first, kept, "a result");
  expect_same_bits(x, before, "an input");
}

// A layer's memory is the next one's: without that a model's passes would leave the caches.
TEST_F(RecordedPassTest, TensorsShareMemoryAsInThePass) {
  if (!multiplies_rows_apart(own_dtypes().back())) GTEST_SKIP() << "skipped: a library's products";
  const auto weight = random_floats({kDim, kDim}, 1);
  const auto copies = WeightCopies::of_model({weight});
  const auto memory_of = [&](int64_t layers) {
    const auto pass = record(random_floats({4 * kTokens, kDim}, 2), [&](const at::Tensor& x) {
                        auto y = x;
                        for (int64_t i = 0; i < layers; ++i) y = kernels::linear(y, weight, {});
                        return y;
                      }).pass;
    return pass ? pass->bytes() : -1;
  };
  if (memory_of(2) == 0) GTEST_SKIP() << "skipped: sanitized build";
  EXPECT_EQ(memory_of(30), memory_of(4));
  EXPECT_GT(memory_of(4), 0);
}

TEST_F(RecordedPassTest, KnowsWhenItIsOfOldWeights) {
  SmallModel model;
  const auto forward = [&](const at::Tensor& x) { return model.forward(x); };
  const auto x = random({1, kDim, kTokens}, own_dtypes().back(), 1);
  const auto expect_old_after = [&](const auto& change) {
    const auto pass = record(x, forward).pass;
    ASSERT_NE(pass, nullptr);
    EXPECT_TRUE(pass->is_current());
    change();
    EXPECT_FALSE(pass->is_current());
  };
  expect_old_after([&] { model.down.mul_(2); });    // of which there are packed panels or a copy
  expect_old_after([&] { model.prefix.mul_(2); });  // of which something was made once
  expect_old_after([&] { model.copies->use_int8(model.up, true); });
  expect_old_after([&] { model.copies->watch(model.up, [](const at::Tensor&) {}); });
  expect_refusal(x, forward, "watches");
}

TEST_F(RecordedPassTest, RefusesWhatCannotBeDoneAgain) {
  const auto x = random_floats({8, kDim}, 1);
  expect_refusal(
      x, [](const at::Tensor& x) { return x.sum().item<float>() > 0 ? x.mul(2) : x.mul(3); },
      "aten::item gives something else than tensors");
  expect_refusal(
      x, [](const at::Tensor& x) { return x + at::rand_like(x); }, "not confirmed");
  expect_refusal(
      x, [](const at::Tensor& x) { return x + at::rand({kDim}); }, "not confirmed");
  const auto adds_up = [](const at::Tensor& x) { return at::zeros({8, kDim}).add_(x); };
  expect_refusal(x, adds_up, "not confirmed");
  at::Tensor scale;
  {
    const c10::InferenceMode inference;
    scale = random_floats({kDim}, 2).neg();
  }
  expect_refusal(
      x, [&](const at::Tensor& x) { return x * scale.neg(); }, "inference tensors");
  const auto apart = [](const at::Tensor& x) {
    auto y = x.clone();
    cpu::each_alone(2, [&](int64_t i) { y[i].mul_(2); });
    return y;
  };
  expect_refusal(x, apart, "threads of its own");
  const auto of_libtorch = [](const at::Tensor& x) {
    auto y = x.clone();
    cpu::share_out_in_libtorch(8, 1, [&](int64_t i, int64_t) { y[i].mul_(2); });
    return y;
  };
  expect_refusal(x, of_libtorch, "threads of its own");
  // A loop that nobody noted, be it over a result or the input.
  const auto unnoted = [](const at::Tensor& x) {
    auto y = x.clone();
    std::for_each_n(y.mutable_data_ptr<float>(), y.numel(), [](float& value) { value *= 2; });
    return y;
  };
  expect_refusal(x, unnoted, "not confirmed");
  EXPECT_EQ(pass_recorder(), nullptr);
}

// Of what was recorded, or is much like it, or of NaN, what nobody noted looks right.
TEST_F(RecordedPassTest, IsConfirmedByOtherValues) {
  const auto x = random_floats({8, kDim}, 1);
  auto much_like = x.clone();
  much_like[7].fill_(3);
  const auto unnoted = [](const at::Tensor& x) {
    const auto* values = x.const_data_ptr<float>();
    return x * at::full({kDim}, std::accumulate(values, values + kDim, 0.0F));
  };
  for (const auto& next : {x, much_like}) {
    const auto recording = RecordedPass::record(x, unnoted);
    ASSERT_NE(recording.pass, nullptr) << recording.why_not;
    expect_same_bits(recording.pass->confirm(next, unnoted), unnoted(next), "the next pass");
    EXPECT_FALSE(recording.pass->is_confirmed());
  }
  const auto recording = RecordedPass::record(x, unnoted);
  ASSERT_NE(recording.pass, nullptr) << recording.why_not;
  const auto hidden = recording.pass->confirm(at::full_like(x, NAN), unnoted);
  EXPECT_TRUE(hidden.isnan().all().item<bool>());
  EXPECT_FALSE(recording.pass->is_confirmed());
}

TEST_F(RecordedPassTest, AnErrorEndsTheRecording) {
  const auto x = random_floats({8, kDim}, 1);
  EXPECT_THROW(RecordedPass::record(x,
                                    [](const at::Tensor& x) {
                                      return at::cat({x, x.t()}, 0);
                                    }),
               c10::Error);
  EXPECT_EQ(pass_recorder(), nullptr);
  EXPECT_EQ(CpuMemoryPoolScope::current(), nullptr);
}

}  // namespace
}  // namespace fovea::kernels
