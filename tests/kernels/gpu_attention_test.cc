// How libtorch is told which kernel to take, on tensors of the CPU, of whose kernels it takes one
// in the same way.
#include "fovea/kernels/attention/gpu_attention.h"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "fovea/kernels/attention/attention_table.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"

namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

class GpuAttentionTest : public testing::Test {
 protected:
  ~GpuAttentionTest() override { kernels::choose_attention("auto", c10::Device(c10::kCPU)); }

  // Heads of K, so that each test has shapes of its own.
  static Inputs inputs(int64_t K) {
    return {random({2, 3, 17, K}, at::kFloat, 1), random({2, 3, 19, K}, at::kFloat, 2),
            random({2, 3, 19, K}, at::kFloat, 3)};
  }
  static void compare(const Inputs& in) {
    support::expect_matches_reference(
        [](const Inputs& x) { return kernels::gpu_attention(x[0], x[1], x[2], {}, 0.3); },
        [](const Inputs& x) { return reference::attention(x[0], x[1], x[2], 0.3); }, in,
        at::kFloat);
  }
  static kernels::AttentionShape shape(int64_t K, bool has_gradient) {
    return {at::kFloat, 2, 3, 17, 19, K, /*has_mask=*/false, has_gradient};
  }
};

struct Switches {
  std::array<at::SDPBackend, at::num_sdp_backends> order;
  bool flash, cudnn, efficient, math;
  bool operator==(const Switches&) const = default;

  static Switches now() {
    auto& context = at::globalContext();
    return {context.sDPPriorityOrder(), context.userEnabledFlashSDP(),
            context.userEnabledCuDNNSDP(), context.userEnabledMemEfficientSDP(),
            context.userEnabledMathSDP()};
  }
};

TEST_F(GpuAttentionTest, AutoKeepsWhatItTakesForEachShape) {
  const auto before = Switches::now();
  compare(inputs(8));
  EXPECT_TRUE(Switches::now() == before);
  // The only one of the kernels that there is on a CPU.
  EXPECT_EQ(kernels::attention_table().find(shape(8, true)), kernels::AttentionKernel::kFlash);
  EXPECT_FALSE(kernels::attention_table().find(shape(8, false)));
  const auto in = inputs(8);
  kernels::gpu_attention(in[0], in[1], in[2], {}, 0.3);
  EXPECT_EQ(kernels::attention_table().find(shape(8, false)), kernels::AttentionKernel::kFlash);
}

TEST_F(GpuAttentionTest, AChoiceIsNotMeasured) {
  for (const auto* name : {"flash", "math"}) {
    kernels::choose_attention(name, c10::Device(c10::kCPU));
    const auto before = Switches::now();
    compare(inputs(16));
    EXPECT_TRUE(Switches::now() == before) << name;
  }
  EXPECT_FALSE(kernels::attention_table().find(shape(16, true)));
}

TEST_F(GpuAttentionTest, AMaskAddsToTheScores) {
  const auto in = inputs(24);
  const auto mask = random({2, 1, 17, 19}, at::kFloat, 4);
  const auto scores = at::matmul(in[0] * 0.3, in[1].transpose(-2, -1)) + mask;
  support::expect_close(kernels::gpu_attention(in[0], in[1], in[2], mask, 0.3),
                        at::matmul(at::softmax(scores, -1), in[2]), at::kFloat, "output");
}

TEST_F(GpuAttentionTest, OfNothingIsEmpty) {
  const auto q = random({0, 3, 17, 8}, at::kFloat, 1);
  EXPECT_EQ(kernels::gpu_attention(q, q, q, {}, 0.3).sizes(), q.sizes());
}

}  // namespace
}  // namespace fovea
