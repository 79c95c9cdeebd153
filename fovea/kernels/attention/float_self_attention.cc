#include "fovea/kernels/attention/float_self_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "fovea/kernels/attention/packed_attention_function.h"
#include "fovea/kernels/cpu/attention_head.h"
#include "fovea/kernels/cpu/share_out.h"

// S sequences, N tokens of one, T of all, H heads, K head_dim, D = H K.
namespace fovea::kernels {
namespace {

// The sizes of one call, and where each head's parts lie.
struct FloatHeads : AttentionHeads {
  using AttentionHeads::AttentionHeads;
  static constexpr const char* kForward = "fovea::self_attention";
  static constexpr const char* kBackward = "fovea::self_attention_backward";

  // `which` of `parts` that lie side by side in a [B, N, parts D] tensor, see first().
  cpu::InRowsOfHead in(const at::Tensor& x, int64_t head, int64_t which, int64_t parts) const {
    const auto* data = static_cast<const char*>(x.const_data_ptr());
    return {data + first(head, which, parts) * x.element_size(), stride(parts),
            x.scalar_type() == at::kBFloat16};
  }
  cpu::OutRowsOfHead rows(const at::Tensor& x, int64_t head, int64_t which, int64_t parts) const {
    auto* data = static_cast<char*>(x.mutable_data_ptr());
    return {data + first(head, which, parts) * x.element_size(), stride(parts),
            x.scalar_type() == at::kBFloat16};
  }
  cpu::QkvOfHead<cpu::InRowsOfHead> qkv(const at::Tensor& x, int64_t head) const {
    return {in(x, head, 0, 3), in(x, head, 1, 3), in(x, head, 2, 3)};
  }
  // Calls work(head, part, scratch) for so many parts of every head of every sequence, in parallel.
  template <class Work>
  void for_each(int64_t parts, const Work& work) const {
    cpu::share_out(count() * parts, grain(20000), [&](int64_t begin, int64_t end) {
      thread_local cpu::AttentionScratch scratch;
      for (int64_t i = begin; i < end; ++i) work(i / parts, i % parts, scratch);
    });
  }
  // Of each head's queries where there are fewer heads than threads; each part packs all keys and
  // values, so it has enough queries. Bits do not depend on it.
  int64_t parts_of_queries() const {
    constexpr int64_t kLeast = 240;
    const int64_t wanted = 2 * at::get_num_threads() / std::max<int64_t>(1, count());
    const int64_t mean =
        num_queries > 0 ? num_queries
                        : (offsets.back() - offsets.front()) * H / std::max<int64_t>(1, count());
    return std::max<int64_t>(1, std::min(wanted, mean / kLeast));
  }

  PackedAttention forward(const at::Tensor& qkv, double scale) const {
    const auto out = empty_out(qkv), log_sums = empty_sums(qkv);
    auto* sums = log_sums.mutable_data_ptr<float>();
    const int64_t parts = parts_of_queries();
    for_each(parts, [&](int64_t head, int64_t part, cpu::AttentionScratch& scratch) {
      const int64_t Q = queries(head);
      cpu::attention_head_forward(scratch, this->qkv(qkv, head), tokens(head), K,
                                  static_cast<float>(scale), Q * part / parts,
                                  Q * (part + 1) / parts, rows(out, head, 0, 1),
                                  sums + first_of_sums(head));
    });
    return {out, {log_sums}};
  }

  at::Tensor backward(const at::Tensor& dout, const at::Tensor& qkv, const PackedAttention& made,
                      double scale) const {
    auto dqkv = at::empty(qkv.sizes(), dout.options());
    const auto* sums = made.kept[0].const_data_ptr<float>();
    for_each(1, [&](int64_t head, int64_t, cpu::AttentionScratch& scratch) {
      cpu::attention_head_backward(
          scratch, this->qkv(qkv, head), in(made.out, head, 0, 1), in(dout, head, 0, 1),
          sums + first_of_sums(head), tokens(head), queries(head), K, static_cast<float>(scale),
          {rows(dqkv, head, 0, 3), rows(dqkv, head, 1, 3), rows(dqkv, head, 2, 3)});
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
