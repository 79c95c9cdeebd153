// S sequences, T tokens of all, H heads, K head_dim.
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <tuple>

#include "fovea/kernels/attention/attention_heads.h"
#include "fovea/kernels/attention/gpu_attention.h"
#include "fovea/kernels/attention/packed_attention_function.h"

namespace fovea::kernels {
namespace {

// [S + 1] int32 on the device. From pinned memory, so that the host does not wait for the copy.
at::Tensor offsets_on_device(const std::vector<int64_t>& offsets, const at::Device& device) {
  const auto size = static_cast<int64_t>(offsets.size());
  const auto on_host = at::empty({size}, at::TensorOptions().dtype(at::kInt).pinned_memory(true));
  std::transform(offsets.begin(), offsets.end(), on_host.mutable_data_ptr<int32_t>(),
                 [](int64_t offset) { return static_cast<int32_t>(offset); });
  return on_host.to(device, /*non_blocking=*/true);
}

int64_t longest_of(const std::vector<int64_t>& offsets) {
  int64_t longest = 0;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    longest = std::max(longest, offsets[s + 1] - offsets[s]);
  }
  return longest;
}

// q, k and v, each [T, H, K] with rows of qkv [1, T, 3 H K] between them.
std::vector<at::Tensor> parts_of(const at::Tensor& qkv, int64_t num_heads) {
  return qkv.squeeze(0).unflatten(-1, {3, num_heads, -1}).unbind(1);
}

struct FlashHeads : AttentionHeads {
  using AttentionHeads::AttentionHeads;
  static constexpr const char* kForward = "fovea::packed_attention";
  static constexpr const char* kBackward = "fovea::packed_attention_backward";

  PackedAttention forward(const at::Tensor& qkv, double scale) const {
    const auto parts = parts_of(qkv, H);
    const auto starts = offsets_on_device(offsets, qkv.device());
    const int64_t longest = longest_of(offsets);
    const auto [out, log_sum, random_state, unused, mask] = at::_flash_attention_forward(
        parts[0], parts[1], parts[2], starts, starts, longest, longest, /*dropout_p=*/0.0,
        /*is_causal=*/false, /*return_debug_mask=*/false, scale);
    return {out.flatten(1).unsqueeze(0), {log_sum, starts, random_state, unused}};
  }

  at::Tensor backward(const at::Tensor& dout, const at::Tensor& qkv, const PackedAttention& made,
                      double scale) const {
    const auto parts = parts_of(qkv, H);
    const int64_t longest = longest_of(offsets);
    const auto by_head = [&](const at::Tensor& x) { return x.view({-1, H, K}); };
    const auto &log_sum = made.kept[0], &starts = made.kept[1];
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        by_head(dout), parts[0], parts[1], parts[2], by_head(made.out), log_sum, starts, starts,
        longest, longest, /*dropout_p=*/0.0, /*is_causal=*/false, made.kept[2], made.kept[3],
        scale);
    return at::stack({dq, dk, dv}, 1).view(qkv.sizes());
  }
};

}  // namespace

bool takes_packed_attention(at::ScalarType dtype, int64_t head_dim, AttentionChoice choice) {
  constexpr int64_t kMaxHeadDim = 256;
  return (dtype == at::kBFloat16 || dtype == at::kHalf) && head_dim % 8 == 0 &&
         head_dim <= kMaxHeadDim && choice != AttentionChoice::kMath;
}

at::Tensor packed_gpu_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                const std::vector<int64_t>& offsets) {
  return PackedAttentionFunction<FlashHeads>::apply(qkv, num_heads, scale, offsets, int64_t{0});
}

}  // namespace fovea::kernels
