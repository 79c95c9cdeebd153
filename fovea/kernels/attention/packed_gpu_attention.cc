// S sequences, T tokens of all, H heads, K head_dim.
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <tuple>

#include "fovea/kernels/attention/attention_heads.h"
#include "fovea/kernels/attention/gpu_attention.h"
#include "fovea/kernels/work_scope.h"

namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

class PackedGpuAttentionFunction : public torch::autograd::Function<PackedGpuAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv_in, int64_t num_heads,
                            double scale, const std::vector<int64_t>& offsets) {
    const auto qkv = qkv_in.contiguous();
    const auto parts = parts_of(qkv, num_heads);
    const auto starts = offsets_on_device(offsets, qkv.device());
    const int64_t longest = longest_of(offsets);
    const AttentionHeads heads(qkv, num_heads, offsets);
    const WorkScope work("fovea::packed_attention", heads.flops(2), bytes_of({qkv}) / 3 * 4);
    const auto [out, log_sum, random_state, unused, mask] = at::_flash_attention_forward(
        parts[0], parts[1], parts[2], starts, starts, longest, longest, /*dropout_p=*/0.0,
        /*is_causal=*/false, /*return_debug_mask=*/false, scale);
    ctx->save_for_backward({qkv, out, log_sum, starts, random_state, unused});
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["longest"] = longest;
    ctx->saved_data["flops"] = heads.flops(4);
    return out.flatten(1).unsqueeze(0);  // [1, T, H K]
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& qkv = saved[0];
    const auto parts = parts_of(qkv, ctx->saved_data["num_heads"].toInt());
    const auto longest = ctx->saved_data["longest"].toInt();
    const WorkScope work("fovea::packed_attention_backward", ctx->saved_data["flops"].toDouble(),
                         bytes_of({qkv}) / 3 * 7);
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        gradients[0].reshape(saved[1].sizes()), parts[0], parts[1], parts[2], saved[1], saved[2],
        saved[3], saved[3], longest, longest, /*dropout_p=*/0.0, /*is_causal=*/false, saved[4],
        saved[5], ctx->saved_data["scale"].toDouble());
    return {at::stack({dq, dk, dv}, 1).view(qkv.sizes()), at::Tensor(), at::Tensor(), at::Tensor()};
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
  return PackedGpuAttentionFunction::apply(qkv, num_heads, scale, offsets);
}

}  // namespace fovea::kernels
