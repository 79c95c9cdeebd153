// Self-attention of a few queries without the keys and values of all tokens.
#include "fovea/kernels/attention/read_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/threads.h"

// B batch, N tokens, Q queries, D width, H heads, K head_dim.
namespace fovea {
namespace {

using support::random;

struct ReadCase {
  int64_t B, N, Q, D, H, K;
  bool has_bias = true;
};
struct ReadInputs {
  at::Tensor x, weight, bias;
};

constexpr double kScaleOfRead = 0.23;

ReadInputs read_inputs(const ReadCase& c) {
  return {random({c.B, c.N, c.D}, at::kFloat, 1), random({3 * c.H * c.K, c.D}, at::kFloat, 2) * 0.3,
          c.has_bias ? random({3 * c.H * c.K}, at::kFloat, 3) : at::Tensor()};
}

at::Tensor read(const ReadInputs& in, const ReadCase& c) {
  return kernels::read_attention(in.x, in.weight, in.bias, c.H, kScaleOfRead, c.Q);
}

// With keys and values, in float64.
at::Tensor reference_read(const ReadInputs& in, const ReadCase& c) {
  const auto as_double = [](const at::Tensor& t) { return t.defined() ? t.to(at::kDouble) : t; };
  const auto qkv = at::linear(as_double(in.x), as_double(in.weight), as_double(in.bias));
  const auto parts = qkv.unflatten(-1, {3, c.H, c.K}).permute({2, 0, 3, 1, 4});
  return reference::attention(parts[0], parts[1], parts[2], kScaleOfRead)
      .transpose(1, 2)
      .flatten(2)
      .narrow(1, 0, c.Q);
}

TEST(ReadAttentionTest, IsThatOfKeysAndValues) {
  for (const auto& c : {ReadCase{2, 197, 1, 192, 3, 64},
                        {3, 50, 2, 96, 4, 24, false},
                        {1, 1, 1, 32, 2, 8},
                        {5, 230, 5, 40, 3, 7},
                        {2, 65, 1, 400, 1, 80}}) {
    SCOPED_TRACE(testing::Message() << c.N << " tokens of " << c.D);
    const auto in = read_inputs(c);
    support::expect_close(read(in, c), reference_read(in, c), at::kFloat, "output");
  }
}

TEST(ReadAttentionTest, BitsDependOnNoThreadNoSampleAndNoPackedCopy) {
  const ReadCase c{3, 65, 1, 96, 3, 32};
  const auto in = read_inputs(c);
  const auto all = read(in, c);
  support::expect_same_bits_for_any_threads([&] { return std::vector{read(in, c)}; }, {2, 3, 7});
  const ReadInputs last{in.x.narrow(0, 2, 1), in.weight, in.bias};
  support::expect_same_bits(read(last, {1, c.N, c.Q, c.D, c.H, c.K}), all.narrow(0, 2, 1), "alone");
  const auto copies = kernels::WeightCopies::of_model({in.weight});
  support::expect_same_bits(read(in, c), all, "packed");
}

TEST(ReadAttentionTest, IsForInferenceInFloat32) {
  const auto x = random({2, 17, 96}, at::kFloat, 1);
  auto weight = random({3 * 96, 96}, at::kFloat, 2);
  const auto bias = random({3 * 96}, at::kFloat, 3);
  EXPECT_TRUE(kernels::takes_read_attention(x, weight, bias, 3, 1));
  EXPECT_TRUE(kernels::takes_read_attention(x, weight, bias, 3, 16));
  EXPECT_FALSE(kernels::takes_read_attention(x, weight, bias, 3, 17));  // no less work
  EXPECT_FALSE(kernels::takes_read_attention(x.to(at::kDouble), weight, bias, 3, 1));
  EXPECT_FALSE(kernels::takes_read_attention(x.to(at::kBFloat16), weight, bias, 3, 1));
  kernels::choose_attention("math", c10::Device(c10::kCPU));
  EXPECT_FALSE(kernels::takes_read_attention(x, weight, bias, 3, 1));
  kernels::choose_attention("auto", c10::Device(c10::kCPU));
  auto bias_of_training = bias.clone().requires_grad_();
  EXPECT_FALSE(kernels::takes_read_attention(x, weight, bias_of_training, 3, 1));
  weight.requires_grad_();
  EXPECT_FALSE(kernels::takes_read_attention(x, weight, bias, 3, 1));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(kernels::takes_read_attention(x, weight, bias, 3, 1));
  const auto copies = kernels::WeightCopies::of_model({weight});
  copies->watch(weight, [](const at::Tensor&) {});
  EXPECT_FALSE(kernels::takes_read_attention(x, weight, bias, 3, 1));
  copies->watch(weight, {});
  EXPECT_TRUE(kernels::takes_read_attention(x, weight, bias, 3, 1));
  copies->use_int8(weight, true);
  EXPECT_FALSE(kernels::takes_read_attention(x, weight, bias, 3, 1));
}

TEST(ReadAttentionTest, RefusesSizesThatDoNotFit) {
  const auto x = random({2, 5, 12}, at::kFloat, 1), weight = random({36, 12}, at::kFloat, 2);
  EXPECT_THROW(kernels::read_attention(x, weight, {}, 2, 1.0, 6), Error);
  EXPECT_THROW(kernels::read_attention(x, weight, {}, 5, 1.0, 1), Error);
  EXPECT_THROW(kernels::read_attention(x, weight.narrow(1, 0, 11), {}, 2, 1.0, 1), Error);
}

}  // namespace
}  // namespace fovea
