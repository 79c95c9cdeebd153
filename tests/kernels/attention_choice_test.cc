#include "fovea/kernels/attention_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <set>
#include <string>

#include "fovea/core/error.h"
#include "fovea/kernels/attention.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"

// B batch, N tokens, H heads, K head_dim.
namespace fovea {
namespace {

using support::random;
using testing::HasSubstr;
using Inputs = std::vector<at::Tensor>;

constexpr double kScale = 0.37;
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
  constexpr int64_t B = 2, H = 3, K = 24;
  const auto reference_self = [](const Inputs& in) {
    const auto parts = in[0].unflatten(-1, {3, H, K}).permute({2, 0, 3, 1, 4});
    return reference::attention(parts[0], parts[1], parts[2], kScale).transpose(1, 2).flatten(2);
  };
  for (const auto* name : {"auto", "own", "flash", "math"}) {
    kernels::choose_attention(name, kCpu);
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      for (const int64_t N : {17, 300}) {  // on both sides of where auto changes its kernel
        SCOPED_TRACE(testing::Message() << name << ", " << c10::toString(dtype) << ", " << N);
        support::expect_matches_reference(
            [](const Inputs& in) { return kernels::self_attention(in[0], H, kScale); },
            reference_self, {random({B, N, 3 * H * K}, dtype, 5)}, dtype);
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
    EXPECT_TRUE(has_step(steps_of("own", N), "SelfAttentionFunction"));
    EXPECT_TRUE(has_step(steps_of("flash", N), "CpuAttentionFunction"));
    EXPECT_TRUE(has_step(steps_of("math", N), "Softmax"));
  }
  EXPECT_TRUE(has_step(steps_of("auto", 17), "SelfAttentionFunction"));
  EXPECT_TRUE(has_step(steps_of("auto", 300), "CpuAttentionFunction"));
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
  EXPECT_THAT(message("cudnn", kCpu), HasSubstr("needs a GPU"));
  EXPECT_THAT(message("own", c10::Device(c10::kCUDA, 0)), HasSubstr("for the CPU alone"));
  EXPECT_THAT(message("fast", kCpu), HasSubstr("expected auto, own, flash, cudnn or math"));
}

}  // namespace
}  // namespace fovea
