#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/attention/attention_heads.h"
#include "fovea/kernels/attention/bfloat16_self_attention.h"
#include "fovea/kernels/attention/gpu_attention.h"
#include "fovea/kernels/cpu/attention_head.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/work_scope.h"

// B batch, S sequences, N tokens of one, T of all, H heads, K head_dim, D = H K.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Above this what a head is worked on with is far larger than second-level caches. Scores are not
// kept whole.
constexpr int64_t kMaxTokens = 2304;

bool has_cpu_attention(const at::Tensor& qkv, int64_t N) {
  return qkv.is_cpu() && qkv.numel() > 0 &&
         (qkv.scalar_type() == at::kFloat || qkv.scalar_type() == at::kBFloat16) &&
         (N <= kMaxTokens || attention_choice() == AttentionChoice::kOwn);
}

bool is_own_attention_wanted() {
  const auto choice = attention_choice();
  return choice == AttentionChoice::kAuto || choice == AttentionChoice::kOwn;
}

// The sizes of one call, and where each head's parts lie.
struct Heads : AttentionHeads {
  using AttentionHeads::AttentionHeads;

  // `which` of `parts` that lie side by side in a [B, N, parts D] tensor.
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
    const int64_t mean = (offsets.back() - offsets.front()) * H / std::max<int64_t>(1, count());
    return std::max<int64_t>(1, std::min(wanted, mean / kLeast));
  }
};

class SelfAttentionFunction : public torch::autograd::Function<SelfAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv_in, int64_t num_heads,
                            double scale, const std::vector<int64_t>& offsets) {
    const auto qkv = qkv_in.contiguous();
    const Heads heads(qkv, num_heads, offsets);
    const auto out = at::empty({qkv.size(0), qkv.size(1), heads.H * heads.K}, qkv.options());
    const auto log_sums =
        at::empty({qkv.size(0) * qkv.size(1) * heads.H}, qkv.options().dtype(at::kFloat));
    const WorkScope work("fovea::self_attention", heads.flops(2), bytes_of({qkv, out}));
    auto* sums = log_sums.mutable_data_ptr<float>();
    const int64_t parts = heads.parts_of_queries();
    heads.for_each(parts, [&](int64_t head, int64_t part, cpu::AttentionScratch& scratch) {
      const int64_t N = heads.tokens(head);
      cpu::attention_head_forward(
          scratch, heads.qkv(qkv, head), N, heads.K, static_cast<float>(scale), N * part / parts,
          N * (part + 1) / parts, heads.rows(out, head, 0, 1), sums + heads.first_of_sums(head));
    });
    ctx->save_for_backward({qkv, out, log_sums});
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["offsets"] = offsets;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto &qkv = saved[0], &out = saved[1];
    const auto dout = gradients[0].contiguous();
    const auto scale = static_cast<float>(ctx->saved_data["scale"].toDouble());
    const Heads heads(qkv, ctx->saved_data["num_heads"].toInt(),
                      ctx->saved_data["offsets"].toIntVector());
    const auto dqkv = at::empty_like(qkv);
    // As backward is counted everywhere: twice the forward pass. Scores are computed again on top.
    const WorkScope work("fovea::self_attention_backward", heads.flops(4),
                         bytes_of({qkv, dout, dqkv}));
    const auto* sums = saved[2].const_data_ptr<float>();
    heads.for_each(1, [&](int64_t head, int64_t, cpu::AttentionScratch& scratch) {
      cpu::attention_head_backward(scratch, heads.qkv(qkv, head), heads.in(out, head, 0, 1),
                                   heads.in(dout, head, 0, 1), sums + heads.first_of_sums(head),
                                   heads.tokens(head), heads.K, scale,
                                   {heads.rows(dqkv, head, 0, 3), heads.rows(dqkv, head, 1, 3),
                                    heads.rows(dqkv, head, 2, 3)});
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
