#include "fovea/kernels/attention/bfloat16_self_attention.h"

#include <ATen/ops/empty_like.h>

#include "fovea/kernels/attention/packed_attention_function.h"
#include "fovea/kernels/cpu/panel_attention_head.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/recorded_pass.h"

// S sequences, N tokens of one, T of all, H heads, K head_dim, D = H K.
namespace fovea::kernels {
namespace {

// The sizes of one call, and where each head's parts lie.
struct PanelHeads : AttentionHeads {
  using AttentionHeads::AttentionHeads;
  static constexpr const char* kForward = "fovea::self_attention";
  static constexpr const char* kBackward = "fovea::self_attention_backward";

  // `which` of `parts` that lie side by side in a [B, N, parts D] tensor.
  cpu::OutRows rows(uint16_t* data, int64_t head, int64_t which, int64_t parts) const {
    return {data + first(head, which, parts), stride(parts)};
  }
  cpu::InRows in(const uint16_t* data, int64_t head, int64_t which, int64_t parts) const {
    return {data + first(head, which, parts), stride(parts), to_next(head, which, parts)};
  }
  cpu::QkvRows qkv(const uint16_t* data, int64_t head) const {
    return {in(data, head, 0, 3), in(data, head, 1, 3), in(data, head, 2, 3)};
  }
  // Calls work(scope, head, part, scratch) for so many parts of every head of every sequence, in
  // parallel.
  template <class Work>
  void for_each(int64_t parts, const Work& work) const {
    const bool has_tiles =
        kernel_paths().of(KernelOp::kAttention, at::kBFloat16).path == KernelPath::kAmx;
    const auto unit = has_tiles ? cpu::PanelUnit::kTiles : cpu::PanelUnit::kVectors;
    cpu::share_out(count() * parts, grain(40000) * parts, [&](int64_t begin, int64_t end) {
      thread_local cpu::PanelAttentionScratch scratch;
      const cpu::PanelScope scope(unit);
      for (int64_t i = begin; i < end; ++i) work(scope, i / parts, i % parts, scratch);
    });
  }

  PackedAttention forward(const at::Tensor& qkv, double scale) const {
    const auto out = empty_out(qkv), log_sums = empty_sums(qkv);
    const auto* qkv_bits = bits_of(qkv);
    auto* out_bits = mutable_bits_of(out);
    auto* sums = log_sums.defined() ? log_sums.mutable_data_ptr<float>() : nullptr;
    run_kernel([heads = *this, qkv_bits, out_bits, sums, scale] {
      const int64_t parts = heads.parts_of_queries();
      heads.for_each(parts, [&](const auto& scope, int64_t head, int64_t part, auto& scratch) {
        cpu::panel_attention_forward(scope, scratch, heads.qkv(qkv_bits, head), {part, parts},
                                     heads.tokens(head), heads.K, static_cast<float>(scale),
                                     heads.rows(out_bits, head, 0, 1),
                                     sums == nullptr ? nullptr : sums + heads.first_of_sums(head));
      });
    });
    return {out, {log_sums}};
  }

  at::Tensor backward(const at::Tensor& dout, const at::Tensor& qkv, const PackedAttention& made,
                      double scale) const {
    auto dqkv = at::empty_like(qkv);
    const auto *qkv_bits = bits_of(qkv), *out_bits = bits_of(made.out), *dout_bits = bits_of(dout);
    auto* dqkv_bits = mutable_bits_of(dqkv);
    const auto* sums = made.kept[0].const_data_ptr<float>();
    const auto rows_of_gradients = [&](int64_t head) {
      return cpu::QkvGradientRows{rows(dqkv_bits, head, 0, 3), rows(dqkv_bits, head, 1, 3),
                                  rows(dqkv_bits, head, 2, 3)};
    };
    for_each(1, [&](const cpu::PanelScope& scope, int64_t head, int64_t, auto& scratch) {
      cpu::panel_attention_backward(scope, scratch, this->qkv(qkv_bits, head),
                                    in(out_bits, head, 0, 1), in(dout_bits, head, 0, 1),
                                    sums + first_of_sums(head), tokens(head), K,
                                    static_cast<float>(scale), rows_of_gradients(head));
    });
    return dqkv;
  }
};

}  // namespace

at::Tensor bfloat16_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                   const std::vector<int64_t>& offsets) {
  return PackedAttentionFunction<PanelHeads>::apply(qkv, num_heads, scale, offsets, int64_t{0});
}

}  // namespace fovea::kernels
