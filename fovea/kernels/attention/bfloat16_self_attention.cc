#include "fovea/kernels/attention/bfloat16_self_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "fovea/kernels/attention/attention_heads.h"
#include "fovea/kernels/cpu/panel_attention_head.h"
#include "fovea/kernels/cpu/panels.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/work_scope.h"

// S sequences, N tokens of one, T of all, H heads, K head_dim, D = H K.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Above this what a head is worked on with leaves the second-level cache. Scores are not kept
// whole, but for the gradient's.
constexpr int64_t kMostTokens = 2304;

// The sizes of one call, and where each head's parts lie.
struct PackedHeads : AttentionHeads {
  using AttentionHeads::AttentionHeads;

  // `which` of `parts` that lie side by side in a [B, N, parts D] tensor.
  cpu::OutRows rows(uint16_t* data, int64_t head, int64_t which, int64_t parts) const {
    return {data + first(head, which, parts), stride(parts)};
  }
  cpu::InRows in(const uint16_t* data, int64_t head, int64_t which, int64_t parts) const {
    return {data + first(head, which, parts), stride(parts)};
  }
  cpu::QkvRows qkv(const uint16_t* data, int64_t head) const {
    return {in(data, head, 0, 3), in(data, head, 1, 3), in(data, head, 2, 3)};
  }
  // Calls work(head, scratch) for every head of every sequence, in parallel.
  template <class Work>
  void for_each(const Work& work) const {
    cpu::share_out(count(), grain(40000), [&](int64_t begin, int64_t end) {
      thread_local cpu::PanelAttentionScratch scratch;
      const cpu::PanelScope scope;
      for (int64_t head = begin; head < end; ++head) work(head, scratch);
    });
  }
};

class Bfloat16SelfAttentionFunction
    : public torch::autograd::Function<Bfloat16SelfAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv_in, int64_t num_heads,
                            double scale, const std::vector<int64_t>& offsets) {
    const auto qkv = qkv_in.contiguous();
    const PackedHeads heads(qkv, num_heads, offsets);
    const auto out = at::empty({qkv.size(0), qkv.size(1), heads.H * heads.K}, qkv.options());
    const auto log_sums =
        at::empty({qkv.size(0) * qkv.size(1) * heads.H}, qkv.options().dtype(at::kFloat));
    const WorkScope work("fovea::self_attention", heads.flops(2), bytes_of({qkv, out}));
    const auto* qkv_bits = bits_of(qkv);
    auto* out_bits = mutable_bits_of(out);
    auto* sums = log_sums.mutable_data_ptr<float>();
    heads.for_each([&](int64_t head, auto& scratch) {
      cpu::panel_attention_forward(scratch, heads.qkv(qkv_bits, head), heads.tokens(head), heads.K,
                                   static_cast<float>(scale), heads.rows(out_bits, head, 0, 1),
                                   sums + heads.first_of_sums(head));
    });
    ctx->save_for_backward({qkv, out, log_sums});
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["offsets"] = offsets;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& qkv = saved[0];
    const auto dout = gradients[0].contiguous();
    const auto scale = static_cast<float>(ctx->saved_data["scale"].toDouble());
    const PackedHeads heads(qkv, ctx->saved_data["num_heads"].toInt(),
                            ctx->saved_data["offsets"].toIntVector());
    const auto dqkv = at::empty_like(qkv);
    // As backward is counted everywhere: twice the forward pass. Scores are computed again on top.
    const WorkScope work("fovea::self_attention_backward", heads.flops(4),
                         bytes_of({qkv, dout, dqkv}));
    const auto *qkv_bits = bits_of(qkv), *out_bits = bits_of(saved[1]), *dout_bits = bits_of(dout);
    auto* dqkv_bits = mutable_bits_of(dqkv);
    const auto* sums = saved[2].const_data_ptr<float>();
    const auto rows_of_gradients = [&](int64_t head) {
      return cpu::QkvGradientRows{heads.rows(dqkv_bits, head, 0, 3),
                                  heads.rows(dqkv_bits, head, 1, 3),
                                  heads.rows(dqkv_bits, head, 2, 3)};
    };
    heads.for_each([&](int64_t head, auto& scratch) {
      cpu::panel_attention_backward(scratch, heads.qkv(qkv_bits, head),
                                    heads.in(out_bits, head, 0, 1), heads.in(dout_bits, head, 0, 1),
                                    sums + heads.first_of_sums(head), heads.tokens(head), heads.K,
                                    scale, rows_of_gradients(head));
    });
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool has_bfloat16_self_attention(const at::Tensor& qkv, int64_t N) {
  return qkv.is_cpu() && qkv.scalar_type() == at::kBFloat16 && qkv.numel() > 0 &&
         N <= kMostTokens && has_bfloat16_products(qkv.device());
}

at::Tensor bfloat16_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                   const std::vector<int64_t>& offsets) {
  return Bfloat16SelfAttentionFunction::apply(qkv, num_heads, scale, offsets);
}

}  // namespace fovea::kernels
