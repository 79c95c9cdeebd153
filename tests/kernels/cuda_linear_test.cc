// Linear layers and attention on a GPU against float64; skipped, and said so, where there is none.
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/attention/attention_table.h"
#include "fovea/kernels/linear/linear.h"
#include "tests/kernels/cuda_cases.h"

namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

at::Tensor linear_on_cuda(const Inputs& in) { return kernels::linear(in[0], in[1], in[2]); }

class CudaLinearTest : public support::CudaTest {
 protected:
  // x, weight and bias.
  static Inputs layer(const std::vector<int64_t>& rows, int64_t N) {
    return {random(rows, GetParam(), 1), random({N, rows.back()}, at::kFloat, 2),
            random({N}, at::kFloat, 3)};
  }
};

TEST_P(CudaLinearTest, MatchesFloat64) {
  compare(linear_on_cuda, layer({3, 17, 64}, 48));
  compare(linear_on_cuda, layer({2, 197, 384}, 1536));  // many rows to sum up for the weight
  compare(linear_on_cuda, layer({1, 16}, 8));
  compare(linear_on_cuda, layer({7, 13}, 10));  // no length that cuBLASLt likes
  compare([](const Inputs& in) { return kernels::linear(in[0], in[1], {}); },
          {random({3, 17, 64}, GetParam(), 1), random({48, 64}, at::kFloat, 2)});
}

// By the product itself; what is measured on first sight adds nothing.
TEST_P(CudaLinearTest, GradientsAreAddedToThoseOfAWeight) {
  const auto in = layer({2, 197, 384}, 1536);
  const auto before = random({1536, 384}, at::kFloat, 4);
  const auto weight = in[1].to(at::kCUDA).requires_grad_();
  const auto bias = in[2].to(at::kCUDA).requires_grad_();
  const auto loss = [&] { return kernels::linear(in[0].to(at::kCUDA), weight, bias).sum(); };
  const auto gradient = torch::autograd::grad({loss()}, {weight})[0].cpu();
  weight.mutable_grad() = before.to(at::kCUDA);
  for (int time = 1; time <= 3; ++time) {
    loss().backward();
    support::expect_close(weight.grad().cpu(), before + gradient * time, at::kFloat, "dweight");
  }
}

TEST_P(CudaLinearTest, PatchesOf14Match) { compare(linear_on_cuda, layer({4, 256, 588}, 192)); }

TEST_P(CudaLinearTest, RowsOffTheirAlignmentMatch) {
  const auto shifted = [](const Inputs& in) {
    return kernels::linear(in[0].flatten().narrow(0, 1, 51 * 64).view({51, 64}), in[1], in[2]);
  };
  compare(shifted, {random({51 * 64 + 1}, GetParam(), 1), random({48, 64}, at::kFloat, 2),
                    random({48}, at::kFloat, 3)});
}

TEST_P(CudaLinearTest, OfAnActivationMatches) {
  using kernels::Activation;
  const std::vector<kernels::HiddenActivation> activations = {
      {Activation::kGelu},
      {Activation::kGeluTanh},
      {Activation::kQuickGelu},
      {.kind = Activation::kSilu, .is_gated = true}};
  for (const auto& activation : activations) {
    SCOPED_TRACE(static_cast<int>(activation.kind));
    compare(
        [&](const Inputs& in) {
          return kernels::linear_of_activation({in[0], {}}, activation, in[1], in[2]);
        },
        {random({2, 33, activation.is_gated ? 256 : 128}, GetParam(), 1),
         random({48, 128}, at::kFloat, 2), random({48}, at::kFloat, 3)});
  }
}

// Both layers of a feed-forward part with the residual, and rows that cuBLASLt takes no GELU of.
TEST_P(CudaLinearTest, FeedForwardPartsMatch) {
  const kernels::HiddenActivation gelu_tanh{kernels::Activation::kGeluTanh};
  for (const int64_t F : {256, 100}) {
    SCOPED_TRACE(F);
    compare(
        [&](const Inputs& in) {
          const auto hidden = kernels::linear_to_activation(in[0], gelu_tanh, in[1], in[2]);
          return kernels::linear_of_activation(hidden, gelu_tanh, in[3], in[4], in[0]);
        },
        {random({2, 33, 64}, GetParam(), 1), random({F, 64}, at::kFloat, 2),
         random({F}, at::kFloat, 3), random({64, F}, at::kFloat, 4), random({64}, at::kFloat, 5)});
  }
}

TEST_P(CudaLinearTest, AResidualIsAdded) {
  auto in = layer({3, 17, 64}, 48);
  in.push_back(random({3, 17, 48}, GetParam(), 4));
  compare(
      [](const Inputs& given) { return kernels::linear(given[0], given[1], given[2], given[3]); },
      in);
  compare([](const Inputs& given) { return kernels::linear(given[0], given[1], {}, given[2]); },
          {in[0], in[1], in[3]});
}

TEST_P(CudaLinearTest, HasTheSameBitsEachTime) {
  Inputs in;
  for (const auto& x : layer({16, 197, 384}, 384)) in.push_back(x.to(at::kCUDA));
  const auto expected = support::gradients(linear_on_cuda, in);
  for (int i = 0; i < 3; ++i) {
    const auto again = support::gradients(linear_on_cuda, in);
    support::expect_same_bits(again.output.cpu(), expected.output.cpu(), "y");
    for (size_t j = 0; j < in.size(); ++j) {
      support::expect_same_bits(again.inputs[j].cpu(), expected.inputs[j].cpu(),
                                "gradient of input " + std::to_string(j));
    }
  }
}

TEST_P(CudaLinearTest, AttentionIsMeasuredOnceForAShape) {
  kernels::choose_attention("auto", c10::Device(c10::kCUDA, 0));
  const auto q = random({2, 3, 50, 64}, GetParam(), 1).to(at::kCUDA);
  kernels::attention(q, q, q, 0.125);
  const kernels::AttentionShape shape{GetParam(), 2, 3, 50, 50, 64, false, false};
  EXPECT_TRUE(kernels::attention_table().find(shape));
  auto with_gradient = shape;
  with_gradient.has_gradient = true;
  EXPECT_FALSE(kernels::attention_table().find(with_gradient));
}

// Gradients that lie as the output does, as an expanded value, and as queries in all three parts
// do: a kernel's plan for one of them is not taken for another.
TEST_P(CudaLinearTest, SelfAttentionMatchesWhateverTheGradientsLayout) {
  for (const auto* name : {"auto", "cudnn", "flash", "efficient", "math"}) {
    SCOPED_TRACE(name);
    kernels::choose_attention(name, c10::Device(c10::kCUDA, 0));
    const auto attended = [](const Inputs& in) { return kernels::self_attention(in[0], 3, 0.125); };
    const auto qkv = random({2, 197, 3 * 3 * 64}, GetParam(), 1);
    compare(attended, {qkv});
    compare([&](const Inputs& in) { return attended(in) * in[1]; },
            {qkv, random({2, 197, 3 * 64}, GetParam(), 2)});
    compare([&](const Inputs& in) { return attended(in).sum(at::IntArrayRef{0, 1}); }, {qkv});
    compare(
        [&](const Inputs& in) {
          return at::cat({attended(in), in[1], in[1]}, 2);
        },
        {qkv, random({2, 197, 3 * 64}, GetParam(), 3)});
  }
  kernels::choose_attention("auto", c10::Device(c10::kCUDA, 0));
}

TEST_P(CudaLinearTest, PackedAttentionMatches) {
  const std::vector<int64_t> offsets = {0, 5, 22, 23, 153, 300};
  compare([&](const Inputs& in) { return kernels::packed_self_attention(in[0], 3, 0.2, offsets); },
          {random({1, 300, 3 * 3 * 32}, GetParam(), 1)});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaLinearTest,
                         testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace fovea
