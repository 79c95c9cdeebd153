// Self-attention of the packed projection in Fovea's blocks of queries and keys.
#include <ATen/ops/cat.h>
#include <ATen/ops/linspace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/attention/gpu_self_attention.h"
#include "fovea/kernels/cpu_allocator.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

// B batch, N tokens, H heads, K head_dim.
namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

constexpr double kScaleOfBlocks = 0.21;

support::TensorFunction self_attention_of(int64_t H) {
  return [H](const Inputs& in) { return kernels::self_attention(in[0], H, kScaleOfBlocks); };
}

// Output and gradient against float64. qkv: [B, N, 3 H K].
void expect_blocks_match(const at::Tensor& qkv, int64_t H) {
  const auto reference_of_parts = [H](const Inputs& in) {
    const auto parts = in[0].unflatten(-1, {3, H, -1}).permute({2, 0, 3, 1, 4});
    return reference::attention(parts[0], parts[1], parts[2], kScaleOfBlocks)
        .transpose(1, 2)
        .flatten(2);
  };
  support::expect_matches_reference(self_attention_of(H), reference_of_parts, {qkv},
                                    qkv.scalar_type());
}

class SelfAttentionTest : public testing::Test {
 protected:
  SelfAttentionTest() { kernels::choose_attention("own", c10::Device(c10::kCPU)); }
  ~SelfAttentionTest() override {
    kernels::choose_attention("auto", c10::Device(c10::kCPU));
    choose_instructions(0);
  }
  // From now on kernels run in this instruction set of Highway's; 0: the best one.
  static void choose_instructions(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
  }
};

TEST_F(SelfAttentionTest, MatchesFloat64AtTheEdgesOfBlocks) {
  for (const int64_t N : {1,  2,  11,  12,  13,  59,  60,  61,  63,  64,  65, 95,
                          96, 97, 120, 121, 192, 193, 255, 256, 257, 577, 785}) {
    SCOPED_TRACE(N);
    expect_blocks_match(random({1, N, 3 * 64}, at::kFloat, 1), 1);
  }
}

TEST_F(SelfAttentionTest, MatchesFloat64ForHeadsOfEachWidth) {
  for (const int64_t K : {1, 5, 16, 32, 33, 64, 80, 88, 128}) {
    SCOPED_TRACE(K);
    expect_blocks_match(random({2, 65, 3 * 2 * K}, at::kFloat, 2), 2);
  }
  for (const int64_t K : {32, 80, 88}) {
    SCOPED_TRACE(K);
    expect_blocks_match(random({1, 577, 3 * K}, at::kFloat, 3), 1);
  }
}

TEST_F(SelfAttentionTest, MatchesFloat64InEachInstructionSet) {
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    choose_instructions(target);
    for (const int64_t N : {7, 65, 197}) {
      expect_blocks_match(random({1, N, 3 * 2 * 40}, at::kFloat, 4), 2);
    }
    choose_instructions(0);
  }
}

// Scores that rise from block to block, so that sums are brought to ever larger ones, or fall.
TEST_F(SelfAttentionTest, TheLargestScoreMayStandInAnyBlock) {
  const int64_t N = 400, K = 16;
  for (const double end : {1.0, -1.0}) {
    auto qkv = random({1, N, 3 * K}, at::kFloat, 5);
    auto parts = qkv.chunk(3, -1);
    parts[0].add_(2);  // queries that all point one way
    parts[1].add_(at::linspace(-end, end, N).mul_(4).view({1, N, 1}));
    expect_blocks_match(qkv, 1);
  }
}

TEST_F(SelfAttentionTest, TakesBfloat16BeyondTheKernelsOfItsOwn) {
  expect_blocks_match(random({1, 2310, 3 * 2 * 8}, at::kBFloat16, 6), 2);
}

TEST_F(SelfAttentionTest, SameBitsForAnyNumberOfThreads) {
  struct Case {
    int64_t B, N;
  };
  // Also of fewer heads than threads, which then take parts of the queries.
  for (const auto& [B, N] : {Case{2, 50}, {2, 257}, {1, 577}, {1, 1025}}) {
    const Inputs in = {random({B, N, 3 * 3 * 32}, at::kFloat, 7)};
    const auto compute = [&in] {
      const auto result = support::gradients(self_attention_of(3), in);
      return Inputs{result.output, result.inputs[0]};
    };
    support::expect_same_bits_for_any_threads(compute, {2, 3, 7, 16});
  }
}

// The others have no output, and their queries no gradient.
TEST_F(SelfAttentionTest, FewQueriesGiveTheBitsThatTheyHaveAmongAll) {
  struct Case {
    int64_t N, num_queries;
    at::ScalarType dtype;
    const char* choice;
  };
  constexpr int64_t kHeads = 3;
  for (const auto& [N, num_queries, dtype, choice] : {Case{50, 1, at::kFloat, "own"},
                                                      {50, 50, at::kFloat, "own"},
                                                      {257, 61, at::kFloat, "own"},
                                                      {1, 1, at::kFloat, "own"},
                                                      {50, 2, at::kBFloat16, "own"},
                                                      {50, 2, at::kFloat, "math"}}) {
    SCOPED_TRACE(testing::Message() << num_queries << " of " << N << ", " << choice);
    kernels::choose_attention(choice, c10::Device(c10::kCPU));
    const auto qkv = random({2, N, 3 * kHeads * 24}, dtype, 9);
    const auto few = support::gradients(
        [&](const Inputs& in) {
          return kernels::self_attention(in[0], kHeads, kScaleOfBlocks, false, num_queries);
        },
        {qkv});
    const auto part_of_all = support::gradients(
        [&](const Inputs& in) { return self_attention_of(kHeads)(in).narrow(1, 0, num_queries); },
        {qkv});
    EXPECT_EQ(few.output.size(1), num_queries);
    if (dtype == at::kFloat && choice == std::string("own")) {
      EXPECT_TRUE(at::equal(few.output, part_of_all.output));
      EXPECT_TRUE(at::equal(few.inputs[0], part_of_all.inputs[0]));
    }
    support::expect_close(few.output, part_of_all.output, dtype, "output");
    support::expect_close(few.inputs[0], part_of_all.inputs[0], dtype, "gradient");
  }
  const auto qkv = random({2, 5, 3 * 24}, at::kFloat, 9);
  EXPECT_THROW(kernels::self_attention(qkv, 1, 1.0, false, 6), Error);
}

TEST_F(SelfAttentionTest, KeepsNoScoresForTheBackwardPass) {
  constexpr int64_t N = 2048, K = 16, kValue = sizeof(float);
  kernels::use_caching_cpu_allocator();
  const auto qkv = random({1, N, 3 * K}, at::kFloat, 8).requires_grad_();
  const auto before = kernels::cpu_memory().in_use_bytes;
  if (before == 0) GTEST_SKIP() << "skipped: sanitized build";
  const auto out = kernels::self_attention(qkv, 1, kScaleOfBlocks);
  // The output, one number for each token, and what the allocator rounds up.
  EXPECT_LT(kernels::cpu_memory().in_use_bytes - before, 3 * N * K * kValue);
  EXPECT_GE(kernels::cpu_memory().in_use_bytes - before, N * K * kValue);
}

// As on a GPU, with the kernels of the CPU: the graph within the operator, and gradients side by
// side.
TEST(GpuSelfAttentionTest, HasTheValuesAndGradientsOfTheOneTakenApart) {
  const auto qkv = random({2, 7, 3 * 24}, at::kDouble, 1);
  for (const bool runs_again : {false, true}) {
    const auto found = support::gradients(
        [&](const auto& in) { return kernels::gpu_self_attention(in[0], 3, 0.3, runs_again); },
        {qkv});
    const auto expected = support::gradients(
        [&](const auto& in) { return kernels::self_attention(in[0], 3, 0.3, runs_again); }, {qkv});
    support::expect_close(found.output, expected.output, at::kDouble, "output");
    support::expect_close(found.inputs[0], expected.inputs[0], at::kDouble, "gradient of qkv");
  }
  const at::NoGradGuard none;
  support::expect_close(kernels::gpu_self_attention(qkv, 3, 0.3, false),
                        kernels::self_attention(qkv, 3, 0.3), at::kDouble, "without gradients");
}

TEST(GpuSelfAttentionTest, JoinsGradientsByTokenThenPartThenHead) {
  const auto part = [](uint64_t seed) { return random({2, 3, 5, 4}, at::kFloat, seed); };
  const auto dq = part(1), dk = part(2), dv = part(3);
  const auto joined = kernels::join_gradients(dq, dk, dv).view({2, 5, 3, 3, 4});
  for (int64_t i = 0; const auto& each : {dq, dk, dv}) {
    support::expect_same_bits(joined.select(2, i++), each.transpose(1, 2), "part");
  }
}

}  // namespace
}  // namespace fovea
