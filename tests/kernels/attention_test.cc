#include "fovea/kernels/attention/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

// B batch, H heads, N queries, M keys, K head_dim.
namespace fovea {
namespace {

using support::random;
using testing::HasSubstr;
using Inputs = std::vector<at::Tensor>;

constexpr double kScale = 0.37;

at::Tensor op(const Inputs& in) { return kernels::attention(in[0], in[1], in[2], kScale); }
at::Tensor reference_op(const Inputs& in) {
  return reference::attention(in[0], in[1], in[2], kScale);
}

// qkv: [B, N, 3 H K]
void expect_self_attention_matches(const at::Tensor& qkv, int64_t H) {
  const auto reference_self = [H](const Inputs& in) {
    const auto parts = in[0].unflatten(-1, {3, H, -1}).permute({2, 0, 3, 1, 4});
    return reference::attention(parts[0], parts[1], parts[2], kScale).transpose(1, 2).flatten(2);
  };
  support::expect_matches_reference(
      [H](const Inputs& in) { return kernels::self_attention(in[0], H, kScale); }, reference_self,
      {qkv}, qkv.scalar_type());
}

kernels::AttentionDrop drop(double rate, const at::Tensor& rows) {
  return {.rate = rate,
          .key = {.key = philox_key(7, "blocks.0.attn.attn_drop"), .step = 3, .rows = rows}};
}

class AttentionTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  Inputs inputs(int64_t B, int64_t H, int64_t N, int64_t M, int64_t K) const {
    return {random({B, H, N, K}, GetParam(), 1), random({B, H, M, K}, GetParam(), 2),
            random({B, H, M, K}, GetParam(), 3)};
  }
  void compare(const Inputs& in) const {
    support::expect_matches_reference(op, reference_op, in, GetParam());
  }
};

TEST_P(AttentionTest, MatchesReferenceForShortAndLongSequences) {
  for (const int64_t N : {1, 2, 15, 17, 50, 65, 197, 300}) {
    SCOPED_TRACE(N);
    compare(inputs(2, 1, N, N, 16));
  }
}

TEST_P(AttentionTest, MatchesReferenceForManyHeadSizes) {
  for (const int64_t K : {1, 8, 24, 32, 64, 72, 80, 128}) {
    SCOPED_TRACE(K);
    compare(inputs(2, 3, 17, 17, K));
  }
}

TEST_P(AttentionTest, QueriesAndKeysMayDiffer) {
  compare(inputs(2, 3, 1, 33, 16));
  compare(inputs(2, 3, 33, 5, 16));
}

TEST_P(AttentionTest, TakesHeadsPackedInOneTensor) {
  // As the model packs them: [B, N, 3, H, K], q, k and v being slices of one product.
  const auto packed = [](const Inputs& in) {
    const auto qkv = in[0].permute({2, 0, 3, 1, 4});
    return Inputs{qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2)};
  };
  support::expect_matches_reference([&](const Inputs& in) { return op(packed(in)); },
                                    [&](const Inputs& in) { return reference_op(packed(in)); },
                                    {random({3, 19, 3, 2, 16}, GetParam(), 5)}, GetParam());
}

TEST_P(AttentionTest, SelfAttentionMatchesReference) {
  struct Case {
    int64_t B, N, H, K;
  };
  // Short and long; heads that do and do not fill whole vectors.
  for (const auto& [B, N, H, K] : {Case{3, 1, 2, 16},
                                   {5, 17, 4, 32},
                                   {2, 50, 3, 64},
                                   {2, 65, 2, 24},
                                   {1, 197, 3, 64},
                                   {2, 7, 1, 5},
                                   {1, 33, 2, 80},
                                   {1, 256, 1, 40},
                                   {1, 257, 2, 16},
                                   {1, 384, 1, 88},
                                   {1, 385, 1, 8}}) {
    SCOPED_TRACE(testing::Message() << B << " x " << N << " tokens, " << H << " x " << K);
    expect_self_attention_matches(random({B, N, 3 * H * K}, GetParam(), 5), H);
  }
}

TEST_P(AttentionTest, SelfAttentionTakesStrides) {
  const auto qkv = random({19, 3, 96}, GetParam(), 5).transpose(0, 1);
  support::expect_close(kernels::self_attention(qkv, 2, kScale),
                        kernels::self_attention(qkv.contiguous(), 2, kScale), GetParam(), "output");
}

TEST_P(AttentionTest, SelfAttentionOfNoSamplesIsEmpty) {
  EXPECT_EQ(kernels::self_attention(random({0, 5, 96}, GetParam(), 1), 2, kScale).sizes(),
            (std::vector<int64_t>{0, 5, 32}));
}

TEST_P(AttentionTest, SelfAttentionShowsANaN) {
  for (const int64_t channel : {0, 16, 32}) {  // of q, k and v
    auto qkv = random({1, 17, 48}, GetParam(), 5);
    qkv[0][3][channel].fill_(std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(kernels::self_attention(qkv, 1, kScale).isnan().any().item<bool>()) << channel;
  }
}

TEST_P(AttentionTest, LargeLogitsDoNotOverflow) {
  const auto q = random({1, 2, 9, 16}, GetParam(), 1) * 100,
             v = random({1, 2, 9, 16}, GetParam(), 3);
  EXPECT_TRUE(kernels::attention(q, q, v, 1.0).isfinite().all().item<bool>());
  const auto qkv = random({1, 9, 48}, GetParam(), 1) * 100;
  EXPECT_TRUE(kernels::self_attention(qkv, 1, 1.0).isfinite().all().item<bool>());
}

TEST_P(AttentionTest, DropMatchesReferenceWithTheSameMask) {
  const int64_t B = 3, H = 2, N = 7, M = 5;
  const auto how = drop(0.4, at::arange(B) + 10);
  const auto mask = kernels::drop_mask(how.key, H * N * M, how.rate).view({B, H, N, M});
  support::expect_matches_reference(
      [&](const Inputs& in) { return kernels::attention(in[0], in[1], in[2], kScale, how); },
      [&](const Inputs& in) {
        return reference::attention(in[0], in[1], in[2], kScale, mask.to(at::kDouble));
      },
      inputs(B, H, N, M, 16), GetParam());
}

TEST_P(AttentionTest, DropRateZeroChangesNothing) {
  const auto in = inputs(2, 2, 9, 9, 16);
  support::expect_same_bits(
      kernels::attention(in[0], in[1], in[2], kScale, drop(0.0, at::arange(2))), op(in), "output");
}

TEST_P(AttentionTest, ProbabilitiesMatchReference) {
  const auto in = inputs(2, 2, 9, 11, 16);
  const auto actual = kernels::attention_probabilities(in[0], in[1], kScale);
  EXPECT_EQ(actual.scalar_type(), GetParam() == at::kDouble ? at::kDouble : at::kFloat);
  const auto expected =
      reference::attention_probabilities(in[0].to(at::kDouble), in[1].to(at::kDouble), kScale);
  support::expect_close(actual, expected, GetParam(), "probabilities");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AttentionTest,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(AttentionTest, SameBitsForAnyNumberOfThreads) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t N : {17, 197}) {
      const std::vector<int64_t> shape = {3, 2, N, 32};
      const Inputs in = {random(shape, dtype, 1), random(shape, dtype, 2), random(shape, dtype, 3)};
      support::expect_same_bits_for_any_threads([&] {
        const auto result = support::gradients(op, in);
        return Inputs{result.output, result.inputs[0], result.inputs[1], result.inputs[2]};
      });
      const Inputs packed = {random({3, N, 192}, dtype, 4)};
      support::expect_same_bits_for_any_threads([&] {
        const auto result = support::gradients(
            [](const Inputs& x) { return kernels::self_attention(x[0], 2, kScale); }, packed);
        return Inputs{result.output, result.inputs[0]};
      });
    }
  }
}

TEST(AttentionTest, SelfAttentionRefusesWidthsThatDoNotDivide) {
  EXPECT_THROW(kernels::self_attention(at::empty({2, 5, 97}), 2, kScale), Error);
  EXPECT_THROW(kernels::self_attention(at::empty({5, 96}), 2, kScale), Error);
  EXPECT_THROW(kernels::self_attention(at::empty({2, 5, 96}), 2, -1.0), Error);
}

TEST(AttentionTest, JacobianIsTheDerivative) {
  const Inputs in = {random({1, 2, 3, 4}, at::kDouble, 1), random({1, 2, 5, 4}, at::kDouble, 2),
                     random({1, 2, 5, 4}, at::kDouble, 3)};
  support::expect_gradients_are_derivatives(op, in);
  const auto how = drop(0.3, at::arange(1));
  support::expect_gradients_are_derivatives(
      [&](const Inputs& x) { return kernels::attention(x[0], x[1], x[2], kScale, how); }, in);
}

const c10::Device kCpu(c10::kCPU);

class AttentionChoiceTest : public testing::Test {
 protected:
  ~AttentionChoiceTest() override { kernels::choose_attention("auto", kCpu); }
};

// The names of what the gradient of `out` goes through.
std::set<std::string> gradient_steps(const at::Tensor& out) {
  std::set<std::string> names;
  std::vector<torch::autograd::Node*> todo = {out.grad_fn().get()};
  while (!todo.empty()) {
    auto* node = todo.back();
    todo.pop_back();
    names.insert(node->name());
    for (const auto& edge : node->next_edges()) {
      if (edge.function) todo.push_back(edge.function.get());
    }
  }
  return names;
}

bool has_step(const std::set<std::string>& steps, const std::string& part) {
  return std::any_of(steps.begin(), steps.end(),
                     [&](const auto& name) { return name.find(part) != name.npos; });
}

TEST_F(AttentionChoiceTest, EachMatchesTheReference) {
  for (const auto* name : {"auto", "own", "flash", "math"}) {
    kernels::choose_attention(name, kCpu);
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      for (const int64_t N : {17, 300}) {
        SCOPED_TRACE(testing::Message() << name << ", " << c10::toString(dtype) << ", " << N);
        expect_self_attention_matches(random({2, N, 3 * 3 * 24}, dtype, 5), /*H=*/3);
      }
    }
  }
}

TEST_F(AttentionChoiceTest, TheChosenKernelRuns) {
  const auto steps_of = [](const std::string& name, int64_t N) {
    kernels::choose_attention(name, kCpu);
    const auto qkv = random({1, N, 96}, at::kFloat, 1).requires_grad_();
    return gradient_steps(kernels::self_attention(qkv, 2, kScale));
  };
  for (const int64_t N : {17, 300}) {
    EXPECT_TRUE(has_step(steps_of("own", N), "FloatHeads"));
    EXPECT_TRUE(has_step(steps_of("flash", N), "CpuAttentionFunction"));
    EXPECT_TRUE(has_step(steps_of("math", N), "Softmax"));
  }
  EXPECT_TRUE(has_step(steps_of("auto", 17), "FloatHeads"));
  EXPECT_TRUE(has_step(steps_of("auto", 2304), "FloatHeads"));
  EXPECT_TRUE(has_step(steps_of("auto", 2305), "CpuAttentionFunction"));
}

TEST_F(AttentionChoiceTest, RefusesWhatTheDeviceHasNoKernelsOf) {
  const auto message = [](const std::string& name, const c10::Device& device) -> std::string {
    try {
      kernels::choose_attention(name, device);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("cudnn", kCpu), HasSubstr("'cudnn' needs a GPU"));
  EXPECT_THAT(message("efficient", kCpu), HasSubstr("'efficient' needs a GPU"));
  EXPECT_THAT(message("own", c10::Device(c10::kCUDA, 0)), HasSubstr("for the CPU alone"));
  EXPECT_THAT(message("fast", kCpu),
              HasSubstr("expected auto, own, flash, cudnn, efficient or math"));
}

}  // namespace
}  // namespace fovea
