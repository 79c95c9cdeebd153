#include "fovea/kernels/attention/float_self_attention.h"

#include <ATen/ops/empty.h>

#include <type_traits>

#include "fovea/kernels/attention/packed_attention_function.h"
#include "fovea/kernels/cpu/attention_head.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/recorded_pass.h"

// S sequences, N tokens of one, T of all, H heads, K head_dim, D = H K.
namespace fovea::kernels {
namespace {

// The sizes of one call, and where each head's parts lie.
struct FloatHeads : AttentionHeads {
  using AttentionHeads::AttentionHeads;
  static constexpr const char* kForward = "fovea::self_attention";
  static constexpr const char* kBackward = "fovea::self_attention_backward";

  // Of a [B, N, parts D] tensor, whose rows it takes whole.
  cpu::InRowsOfHead in(const at::Tensor& x, int64_t parts) const {
    return {x.const_data_ptr(), stride(parts), x.scalar_type() == at::kBFloat16};
  }
  cpu::OutRowsOfHead out(const at::Tensor& x, int64_t parts) const {
    return {x.mutable_data_ptr(), stride(parts), x.scalar_type() == at::kBFloat16};
  }
  // `which` of `parts` that lie side by side in such rows, see first().
  template <class Data>
  cpu::RowsOfHead<Data> part(const cpu::RowsOfHead<Data>& all, int64_t head, int64_t which,
                             int64_t parts) const {
    using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
    auto* data = static_cast<Byte*>(all.data) + first(head, which, parts) * all.value_bytes();
    return {data, all.stride, all.is_bfloat16, to_next(head, which, parts)};
  }
  template <class Data>
  cpu::QkvOfHead<cpu::RowsOfHead<Data>> qkv(const cpu::RowsOfHead<Data>& all, int64_t head) const {
    return {part(all, head, 0, 3), part(all, head, 1, 3), part(all, head, 2, 3)};
  }
  // Calls work(head, part, scratch) for so many parts of every head of every sequence, in parallel.
  template <class Work>
  void for_each(int64_t parts, const Work& work) const {
    cpu::share_out(count() * parts, grain(20000), [&](int64_t begin, int64_t end) {
      thread_local cpu::AttentionScratch scratch;
      for (int64_t i = begin; i < end; ++i) work(i / parts, i % parts, scratch);
    });
  }
  PackedAttention forward(const at::Tensor& qkv, double scale) const {
    const auto made = empty_out(qkv), log_sums = empty_sums(qkv);
    auto* sums = log_sums.defined() ? log_sums.mutable_data_ptr<float>() : nullptr;
    run_kernel([heads = *this, from = in(qkv, 3), to = out(made, 1), sums, scale] {
      const int64_t parts = heads.parts_of_queries();
      heads.for_each(parts, [&](int64_t head, int64_t part, cpu::AttentionScratch& scratch) {
        const int64_t Q = heads.queries(head);
        cpu::attention_head_forward(scratch, heads.qkv(from, head), heads.tokens(head), heads.K,
                                    static_cast<float>(scale), Q * part / parts,
                                    Q * (part + 1) / parts, heads.part(to, head, 0, 1),
                                    sums == nullptr ? nullptr : sums + heads.first_of_sums(head));
      });
    });
    return {made, {log_sums}};
  }

  at::Tensor backward(const at::Tensor& dout, const at::Tensor& qkv, const PackedAttention& made,
                      double scale) const {
    auto dqkv = at::empty(qkv.sizes(), dout.options());
    const auto* sums = made.kept[0].const_data_ptr<float>();
    const auto given = in(qkv, 3), of_made = in(made.out, 1), of_dout = in(dout, 1);
    const auto to = out(dqkv, 3);
    for_each(1, [&](int64_t head, int64_t, cpu::AttentionScratch& scratch) {
      cpu::attention_head_backward(scratch, this->qkv(given, head), part(of_made, head, 0, 1),
                                   part(of_dout, head, 0, 1), sums + first_of_sums(head),
                                   tokens(head), queries(head), K, static_cast<float>(scale),
                                   this->qkv(to, head));
    });
    return dqkv;
  }
};

}  // namespace

at::Tensor float_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                const std::vector<int64_t>& offsets, int64_t num_queries) {
  return PackedAttentionFunction<FloatHeads>::apply(qkv, num_heads, scale, offsets, num_queries);
}

}  // namespace fovea::kernels
