#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/kernels/attention.h"
#include "fovea/kernels/attention_choice.h"
#include "fovea/kernels/attention_heads.h"
#include "fovea/kernels/bfloat16_self_attention.h"
#include "fovea/kernels/cpu/attention_head.h"
#include "fovea/kernels/cpu/norm_rows.h"
#include "fovea/kernels/work_scope.h"

// B batch, N tokens, H heads, K head_dim, D = H K.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Above this the scores of a head leave the second-level cache, and libtorch's blocked kernel is
// the better one.
constexpr int64_t kMaxTokens = 256;

bool has_cpu_attention(const at::Tensor& qkv) {
  return qkv.is_cpu() && qkv.numel() > 0 &&
         (qkv.scalar_type() == at::kFloat || qkv.scalar_type() == at::kBFloat16) &&
         (qkv.size(1) <= kMaxTokens || attention_choice() == AttentionChoice::kOwn);
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
    const auto* bits = from.tensor.const_data_ptr<at::BFloat16>() + from.offset;
    cpu::bfloat16_rows_to_float(reinterpret_cast<const uint16_t*>(bits), from.columns, N, K, to,
                                Kp);
    return;
  }
  const auto* values = from.tensor.const_data_ptr<float>() + from.offset;
  for (int64_t n = 0; n < N; ++n) std::copy_n(values + n * from.columns, K, to + n * Kp);
}

void store(const float* from, int64_t N, int64_t K, int64_t Kp, const HeadView& to) {
  if (to.tensor.scalar_type() == at::kBFloat16) {
    auto* bits = to.tensor.mutable_data_ptr<at::BFloat16>() + to.offset;
    cpu::float_rows_to_bfloat16(from, Kp, N, K, reinterpret_cast<uint16_t*>(bits), to.columns);
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
    s.resize(N, K);
    load(part(qkv, head, 0), N, K, s.padded_width, s.q);
    load(part(qkv, head, 1), N, K, s.padded_width, s.k);
    load(part(qkv, head, 2), N, K, s.padded_width, s.v);
  }
  // Calls work(head, scratch) for every head of every sample, in parallel.
  template <class Work>
  void for_each(const Work& work) const {
    const int64_t grain = std::max<int64_t>(1, 20000 / (N * N));
    at::parallel_for(0, B * H, grain, [&](int64_t begin, int64_t end) {
      thread_local cpu::AttentionScratch scratch;
      for (int64_t head = begin; head < end; ++head) work(head, scratch);
    });
  }
};

class SelfAttentionFunction : public torch::autograd::Function<SelfAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv_in, int64_t num_heads,
                            double scale) {
    const auto qkv = qkv_in.contiguous();
    const Heads heads(qkv, num_heads);
    const auto out = at::empty({heads.B, heads.N, heads.H * heads.K}, qkv.options());
    const WorkScope work("fovea::self_attention", heads.flops(2), bytes_of({qkv, out}));
    heads.for_each([&](int64_t head, cpu::AttentionScratch& s) {
      heads.load_qkv(qkv, head, s);
      cpu::attention_head_forward(s, heads.N, heads.K, static_cast<float>(scale));
      store(s.out, heads.N, heads.K, s.padded_width, heads.output(out, head));
    });
    ctx->save_for_backward({qkv});
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto qkv = ctx->get_saved_variables()[0];
    const auto dout = gradients[0].contiguous();
    const auto scale = static_cast<float>(ctx->saved_data["scale"].toDouble());
    const Heads heads(qkv, ctx->saved_data["num_heads"].toInt());
    const auto dqkv = at::empty_like(qkv);
    // As backward is counted everywhere: twice the forward pass. Scores are computed again on top.
    const WorkScope work("fovea::self_attention_backward", heads.flops(4),
                         bytes_of({qkv, dout, dqkv}));
    heads.for_each([&](int64_t head, cpu::AttentionScratch& s) {
      heads.load_qkv(qkv, head, s);
      load(heads.output(dout, head), heads.N, heads.K, s.padded_width, s.dout);
      cpu::attention_head_backward(s, heads.N, heads.K, scale);
      store(s.dq, heads.N, heads.K, s.padded_width, heads.part(dqkv, head, 0));
      store(s.dk, heads.N, heads.K, s.padded_width, heads.part(dqkv, head, 1));
      store(s.dv, heads.N, heads.K, s.padded_width, heads.part(dqkv, head, 2));
    });
    return {dqkv, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor self_attention(const at::Tensor& qkv, int64_t num_heads, double scale) {
  FOVEA_CHECK(
      qkv.dim() == 3 && qkv.size(2) % (3 * num_heads) == 0,
      "self_attention: qkv with {} dims and width {}; expected [B, N, 3 D] with D in {} heads",
      qkv.dim(), qkv.dim() ? qkv.size(-1) : 0, num_heads);
  FOVEA_CHECK(scale > 0, "self_attention: scale {}; expected a positive number", scale);
  if (is_own_attention_wanted()) {
    if (has_bfloat16_self_attention(qkv, num_heads)) {
      return bfloat16_self_attention(qkv, num_heads, scale);
    }
    if (has_cpu_attention(qkv)) return SelfAttentionFunction::apply(qkv, num_heads, scale);
  }
  const auto parts =
      qkv.unflatten(-1, {3, num_heads, -1}).permute({2, 0, 3, 1, 4});  // [3, B, H, N, K]
  const auto out = attention(parts[0], parts[1], parts[2], scale);     // [B, H, N, K]
  return out.transpose(1, 2).flatten(2);                               // [B, N, D]
}

}  // namespace fovea::kernels
