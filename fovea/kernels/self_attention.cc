#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/attention.h"
#include "fovea/kernels/attention_choice.h"
#include "fovea/kernels/attention_heads.h"
#include "fovea/kernels/bfloat16.h"
#include "fovea/kernels/bfloat16_self_attention.h"
#include "fovea/kernels/cpu/attention_head.h"
#include "fovea/kernels/cpu/norm_rows.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/gpu_attention.h"
#include "fovea/kernels/work_scope.h"

// B batch, S sequences, N tokens of one, T of all, H heads, K head_dim, D = H K.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Above this the scores of a head leave the second-level cache, and libtorch's blocked kernel is
// the better one.
constexpr int64_t kMaxTokens = 256;

bool has_cpu_attention(const at::Tensor& qkv, int64_t N) {
  return qkv.is_cpu() && qkv.numel() > 0 &&
         (qkv.scalar_type() == at::kFloat || qkv.scalar_type() == at::kBFloat16) &&
         (N <= kMaxTokens || attention_choice() == AttentionChoice::kOwn);
}

bool is_own_attention_wanted() {
  const auto choice = attention_choice();
  return choice == AttentionChoice::kAuto || choice == AttentionChoice::kOwn;
}

// One head's [N, K] inside a [B, N, columns] tensor, starting at `offset` elements, row after row
// `columns` apart.
struct HeadView {
  const at::Tensor& tensor;
  int64_t offset;
  int64_t columns;
};

void load(const HeadView& from, int64_t N, int64_t K, int64_t Kp, float* to) {
  if (from.tensor.scalar_type() == at::kBFloat16) {
    cpu::bfloat16_rows_to_float(bits_of(from.tensor) + from.offset, from.columns, N, K, to, Kp);
    return;
  }
  const auto* values = from.tensor.const_data_ptr<float>() + from.offset;
  for (int64_t n = 0; n < N; ++n) std::copy_n(values + n * from.columns, K, to + n * Kp);
}

void store(const float* from, int64_t N, int64_t K, int64_t Kp, const HeadView& to) {
  if (to.tensor.scalar_type() == at::kBFloat16) {
    cpu::float_rows_to_bfloat16(from, Kp, N, K, mutable_bits_of(to.tensor) + to.offset, to.columns);
    return;
  }
  auto* values = to.tensor.mutable_data_ptr<float>() + to.offset;
  for (int64_t n = 0; n < N; ++n) std::copy_n(from + n * Kp, K, values + n * to.columns);
}

// The sizes of one call, and where each head's parts lie.
struct Heads : AttentionHeads {
  using AttentionHeads::AttentionHeads;

  HeadView part(const at::Tensor& qkv, int64_t head, int64_t which) const {  // 0 q, 1 k, 2 v
    return {qkv, first(head, which, 3), stride(3)};
  }
  HeadView output(const at::Tensor& out, int64_t head) const {
    return {out, first(head, 0, 1), stride(1)};
  }
  void load_qkv(const at::Tensor& qkv, int64_t head, cpu::AttentionScratch& s) const {
    const int64_t N = tokens(head);
    s.resize(N, K);
    load(part(qkv, head, 0), N, K, s.padded_width, s.q);
    load(part(qkv, head, 1), N, K, s.padded_width, s.k);
    load(part(qkv, head, 2), N, K, s.padded_width, s.v);
  }
  // Calls work(head, scratch) for every head of every sequence, in parallel.
  template <class Work>
  void for_each(const Work& work) const {
    cpu::share_out(count(), grain(20000), [&](int64_t begin, int64_t end) {
      thread_local cpu::AttentionScratch scratch;
      for (int64_t head = begin; head < end; ++head) work(head, scratch);
    });
  }
};

class SelfAttentionFunction : public torch::autograd::Function<SelfAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv_in, int64_t num_heads,
                            double scale, const std::vector<int64_t>& offsets) {
    const auto qkv = qkv_in.contiguous();
    const Heads heads(qkv, num_heads, offsets);
    const auto out = at::empty({qkv.size(0), qkv.size(1), heads.H * heads.K}, qkv.options());
    const WorkScope work("fovea::self_attention", heads.flops(2), bytes_of({qkv, out}));
    heads.for_each([&](int64_t head, cpu::AttentionScratch& s) {
      heads.load_qkv(qkv, head, s);
      const int64_t N = heads.tokens(head);
      cpu::attention_head_forward(s, N, heads.K, static_cast<float>(scale));
      store(s.out, N, heads.K, s.padded_width, heads.output(out, head));
    });
    ctx->save_for_backward({qkv});
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["offsets"] = offsets;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto qkv = ctx->get_saved_variables()[0];
    const auto dout = gradients[0].contiguous();
    const auto scale = static_cast<float>(ctx->saved_data["scale"].toDouble());
    const Heads heads(qkv, ctx->saved_data["num_heads"].toInt(),
                      ctx->saved_data["offsets"].toIntVector());
    const auto dqkv = at::empty_like(qkv);
    // As backward is counted everywhere: twice the forward pass. Scores are computed again on top.
    const WorkScope work("fovea::self_attention_backward", heads.flops(4),
                         bytes_of({qkv, dout, dqkv}));
    heads.for_each([&](int64_t head, cpu::AttentionScratch& s) {
      heads.load_qkv(qkv, head, s);
      const int64_t N = heads.tokens(head);
      load(heads.output(dout, head), N, heads.K, s.padded_width, s.dout);
      cpu::attention_head_backward(s, N, heads.K, scale);
      store(s.dq, N, heads.K, s.padded_width, heads.part(dqkv, head, 0));
      store(s.dk, N, heads.K, s.padded_width, heads.part(dqkv, head, 1));
      store(s.dv, N, heads.K, s.padded_width, heads.part(dqkv, head, 2));
    });
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

using OwnAttention = at::Tensor (*)(const at::Tensor& qkv, int64_t num_heads, double scale,
                                    const std::vector<int64_t>& offsets);

at::Tensor float_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                const std::vector<int64_t>& offsets) {
  return SelfAttentionFunction::apply(qkv, num_heads, scale, offsets);
}

// Fovea's own kernel for sequences of N tokens; null: libtorch's are better, or the only ones.
OwnAttention own_attention(const at::Tensor& qkv, int64_t N) {
  if (!is_own_attention_wanted()) return nullptr;
  if (has_bfloat16_self_attention(qkv, N)) return bfloat16_self_attention;
  return has_cpu_attention(qkv, N) ? float_self_attention : nullptr;
}

void check_qkv(const at::Tensor& qkv, int64_t num_heads, double scale) {
  FOVEA_CHECK(
      qkv.dim() == 3 && qkv.size(2) % (3 * num_heads) == 0,
      "self_attention: qkv with {} dims and width {}; expected [B, N, 3 D] with D in {} heads",
      qkv.dim(), qkv.dim() ? qkv.size(-1) : 0, num_heads);
  FOVEA_CHECK(scale > 0, "self_attention: scale {}; expected a positive number", scale);
}

void check_offsets(const at::Tensor& qkv, at::IntArrayRef offsets) {
  const bool is_ascending =
      std::adjacent_find(offsets.begin(), offsets.end(), std::greater_equal<>()) == offsets.end();
  FOVEA_CHECK(qkv.size(0) == 1 && offsets.size() > 1 && offsets.front() == 0 &&
                  offsets.back() == qkv.size(1) && is_ascending,
              "packed_self_attention: sequences at [{}] of a qkv of {} rows of {} tokens; expected "
              "one row, and ascending offsets from 0 to its end",
              fmt::join(offsets, ", "), qkv.size(0), qkv.size(1));
}

// Neighbours that one call of a kernel takes.
struct SequenceRun {
  size_t first, last;  // sequences [first, last)
  OwnAttention own;    // null: a single one
};

std::vector<SequenceRun> runs_of(const at::Tensor& qkv, at::IntArrayRef offsets) {
  std::vector<SequenceRun> runs;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const auto own = own_attention(qkv, offsets[s + 1] - offsets[s]);
    if (own && !runs.empty() && runs.back().own == own) {
      runs.back().last = s + 1;
    } else {
      runs.push_back({s, s + 1, own});
    }
  }
  return runs;
}

}  // namespace

at::Tensor self_attention(const at::Tensor& qkv, int64_t num_heads, double scale) {
  check_qkv(qkv, num_heads, scale);
  if (const auto own = own_attention(qkv, qkv.size(1))) {
    return own(qkv, num_heads, scale, even_offsets(qkv.size(0), qkv.size(1)));
  }
  // Not parts[0] and so on: each would give a gradient as large as all three, to be added up.
  const auto parts = qkv.unflatten(-1, {3, num_heads, -1})
                         .permute({2, 0, 3, 1, 4})                  // [3, B, H, N, K]
                         .unbind(0);                                // each [B, H, N, K]
  const auto out = attention(parts[0], parts[1], parts[2], scale);  // [B, H, N, K]
  return out.transpose(1, 2).flatten(2);                            // [B, N, D]
}

at::Tensor packed_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                 at::IntArrayRef offsets) {
  check_qkv(qkv, num_heads, scale);
  check_offsets(qkv, offsets);
  const int64_t head_dim = qkv.size(2) / (3 * num_heads);
  if (qkv.is_cuda() && takes_packed_attention(qkv.scalar_type(), head_dim, attention_choice())) {
    return packed_gpu_attention(qkv, num_heads, scale, offsets.vec());
  }
  const auto runs = runs_of(qkv, offsets);
  std::vector<int64_t> lengths;
  for (const auto& run : runs) lengths.push_back(offsets[run.last] - offsets[run.first]);
  const auto rows = qkv.split_with_sizes(lengths, 1);  // each [1, tokens of a run, 3 D]
  std::vector<at::Tensor> outs;
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto& [first, last, own] = runs[r];
    if (!own) {
      outs.push_back(self_attention(rows[r], num_heads, scale));
      continue;
    }
    std::vector<int64_t> within;
    for (size_t s = first; s <= last; ++s) within.push_back(offsets[s] - offsets[first]);
    outs.push_back(own(rows[r], num_heads, scale, within));
  }
  return outs.size() == 1 ? outs.front() : at::cat(outs, 1);  // [1, T, D]
}

}  // namespace fovea::kernels
