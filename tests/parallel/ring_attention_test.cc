#include "fovea/parallel/ring_attention.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "fovea/kernels/attention/attention.h"
#include "tests/parallel/run_ranks.h"
#include "tests/support/parity.h"

namespace fovea::parallel {
namespace {

using support::NamedTensors;

constexpr int64_t kBatch = 2, kHeads = 3, kHeadDim = 4;
constexpr double kScale = 0.7;

// Output and gradients for q, k and v, all [B, H, N, K].
NamedTensors attend(const at::Tensor& qkv,
                    const std::function<at::Tensor(at::Tensor, at::Tensor, at::Tensor)>& attention,
                    const at::Tensor& dy) {
  const auto x = qkv.clone().requires_grad_();
  const auto y = attention(x[0], x[1], x[2]);
  (y * dy).sum().backward();
  return {{"out", y.detach()}, {"d_qkv", x.grad()}};
}

// The whole, and what three ranks with `of_rank` tokens each make of it, padding at the end; a rank
// may have padding alone.
void compare(Communicator& ranks, int64_t tokens, int64_t of_rank, at::ScalarType dtype,
             const at::Tensor& key_mask = {}) {
  SCOPED_TRACE(::testing::Message()
               << tokens << " tokens, " << of_rank << " of a rank, " << c10::toString(dtype));
  const auto padded = ranks.size() * of_rank;
  const auto waves = [](at::IntArrayRef shape, double frequency) {
    return (at::arange(c10::multiply_integers(shape), at::kDouble) * frequency).sin().view(shape);
  };
  // What stands in the padding must not matter.
  const auto qkv = waves({3, kBatch, kHeads, padded, kHeadDim}, 0.9).to(dtype);
  const auto dy = waves({kBatch, kHeads, padded, kHeadDim}, 1.7).to(dtype);
  const auto alone = attend(
      qkv.narrow(3, 0, tokens),
      [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        return kernels::attention(q, k, v, kScale, {}, key_mask);
      },
      dy.narrow(2, 0, tokens));
  const auto first = ranks.rank() * of_rank;
  const auto own = std::clamp<int64_t>(tokens - first, 0, of_rank);
  auto own_dy = dy.narrow(2, first, of_rank).clone();
  own_dy.narrow(2, own, of_rank - own).zero_();
  auto part = attend(
      qkv.narrow(3, first, of_rank),
      [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        return ring_attention({ranks, "a test", tokens}, q, k, v, kScale, key_mask);
      },
      own_dy);
  EXPECT_TRUE(part["d_qkv"].narrow(3, own, of_rank - own).eq(0).all().item<bool>());
  part["out"] = part["out"].narrow(2, 0, own);
  part["d_qkv"] = part["d_qkv"].narrow(3, 0, own);
  const auto begin = std::min(first, tokens);
  EXPECT_PARITY(part,
                (NamedTensors{{"out", alone.at("out").narrow(2, begin, own)},
                              {"d_qkv", alone.at("d_qkv").narrow(3, begin, own)}}),
                dtype);
}

TEST(RingAttentionTest, IsAttention) {
  testing::run_ranks(3, [](World& world) {
    auto& ranks = world.all();
    compare(ranks, 9, 3, at::kDouble);
    compare(ranks, 7, 3, at::kDouble);
    compare(ranks, 5, 3, at::kDouble);  // the last rank has padding alone
    compare(ranks, 7, 3, at::kFloat);
    compare(ranks, 7, 3, at::kBFloat16);
  });
}

TEST(RingAttentionTest, MaskedKeys) {
  testing::run_ranks(3, [](World& world) {
    auto mask = at::ones({kBatch, 7}, at::kBool);
    mask[0].narrow(0, 0, 4).fill_(false);  // all of the first rank, and some of the second
    mask[1][6] = false;                    // all of the last rank
    compare(world.all(), 7, 3, at::kDouble, mask);
    compare(world.all(), 7, 3, at::kFloat, mask);
  });
}

}  // namespace
}  // namespace fovea::parallel
