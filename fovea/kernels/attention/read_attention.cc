#include "fovea/kernels/attention/read_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <tuple>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/cpu/attention_head.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/cpu/strip_product.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/kernels/recorded_pass.h"
#include "fovea/kernels/work_scope.h"

// B batch, N tokens, Q queries of each sample, D width, H heads, K head_dim.
namespace fovea::kernels {
namespace {

// The sizes of one call, and the parts of the projection.
struct ReadHeads {
  int64_t B, N, Q, D, H, K;
  const float* weight;  // [3, H, K, D]
  const float* bias;    // [3, H, K], or null

  int64_t rows() const { return B * Q; }
  // Of queries, keys or values (0, 1, 2) of a head, [K, D], or its transpose.
  cpu::FloatFactor part(int64_t which, int64_t head, bool is_transposed) const {
    return {weight + (which * H + head) * K * D, D, is_transposed};
  }
  const float* bias_of(int64_t which, int64_t head) const {
    return bias ? bias + (which * H + head) * K : nullptr;
  }
  at::Tensor empty(at::IntArrayRef sizes, const at::Tensor& like) const {
    return at::empty(sizes, like.options());
  }

  // read: [B Q, D] with dense rows -> what each head looks for among the tokens themselves, [B, Q,
  // H, D].
  at::Tensor wanted(const at::Tensor& read, const float* packed) const {
    const auto queries = empty({rows(), H * K}, read), to = empty({B, Q, H, D}, read);
    auto *q = queries.mutable_data_ptr<float>(), *data = to.mutable_data_ptr<float>();
    const cpu::FloatFactor asking{read.const_data_ptr<float>(), read.stride(0), false};
    run_kernel([heads = *this, asking, packed, q, data] {
      const auto [M, D, HK] = std::tuple(heads.rows(), heads.D, heads.H * heads.K);
      cpu::strip_product(asking, heads.part(0, 0, true), packed, {M, HK, D},
                         {.data = q, .stride = HK, .bias = heads.bias_of(0, 0)});
      for (int64_t head = 0; head < heads.H; ++head) {
        cpu::strip_product({q + head * heads.K, HK, false}, heads.part(1, head, false), nullptr,
                           {M, D, heads.K}, {.data = data + head * D, .stride = heads.H * D});
      }
    });
    return to;
  }

  // x: [B, N, D] -> the tokens' mean, weighted by probabilities, [B, Q, H, D].
  at::Tensor found(const at::Tensor& x, const at::Tensor& wanted, double scale) const {
    const auto to = at::empty_like(wanted);
    const auto *of = x.const_data_ptr<float>(), *asks = wanted.const_data_ptr<float>();
    auto* data = to.mutable_data_ptr<float>();
    const auto attend = [=, N = N, D = D, QH = Q * H](int64_t begin, int64_t end) {
      thread_local cpu::AttentionScratch scratch;
      for (int64_t b = begin; b < end; ++b) {
        const cpu::InRowsOfHead tokens{of + b * N * D, D};
        cpu::attention_head_forward(scratch, {{asks + b * QH * D, D}, tokens, tokens}, N, D,
                                    static_cast<float>(scale), 0, QH, {data + b * QH * D, D},
                                    /*log_sums=*/nullptr);
      }
    };
    run_kernel([attend, count = B] { cpu::share_out(count, /*most=*/1, attend); });
    return to;
  }

  // found: [B, Q, H, D] -> [B, Q, H K].
  at::Tensor given(const at::Tensor& found) const {
    const auto to = empty({B, Q, H * K}, found);
    run_kernel(
        [heads = *this, from = found.const_data_ptr<float>(), data = to.mutable_data_ptr<float>()] {
          const auto [H, K, D] = std::tuple(heads.H, heads.K, heads.D);
          for (int64_t head = 0; head < H; ++head) {
            cpu::strip_product(
                {from + head * D, H * D, false}, heads.part(2, head, true), nullptr,
                {heads.rows(), K, D},
                {.data = data + head * K, .stride = H * K, .bias = heads.bias_of(2, head)});
          }
        });
    return to;
  }
};

bool is_own_attention_chosen() {
  const auto choice = attention_choice();
  const auto path = kernel_paths().of(KernelOp::kAttention, at::kFloat).path;
  return (choice == AttentionChoice::kAuto || choice == AttentionChoice::kOwn) &&
         path != KernelPath::kReference;
}

}  // namespace

bool takes_read_attention(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          int64_t num_heads, int64_t num_queries) {
  const bool is_float = x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 &&
                        weight.scalar_type() == at::kFloat && weight.is_contiguous();
  const bool has_gradient =
      at::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  const bool is_of_int8 = kept_int8(weight) != nullptr || has_watcher(weight);
  if (!is_float || has_gradient || is_of_int8) return false;
  // The heads of a query each look at all tokens, D wide.
  const bool is_less = 2 * num_queries * num_heads <= x.size(-1);
  return is_less && is_own_attention_chosen();
}

at::Tensor read_attention(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          int64_t num_heads, double scale, int64_t num_queries) {
  FOVEA_CHECK(x.dim() == 3 && weight.dim() == 2 && weight.size(1) == x.size(2) &&
                  weight.size(0) % (3 * num_heads) == 0 && num_queries > 0 &&
                  num_queries <= x.size(1),
              "read_attention: {} queries of {} tokens, weights of {} rows in {} heads",
              num_queries, x.size(1), weight.size(0), num_heads);
  const auto tokens = x.contiguous();
  const auto own_bias = bias.defined() ? bias.contiguous() : bias;
  const ReadHeads heads{.B = x.size(0),
                        .N = x.size(1),
                        .Q = num_queries,
                        .D = x.size(2),
                        .H = num_heads,
                        .K = weight.size(0) / (3 * num_heads),
                        .weight = weight.const_data_ptr<float>(),
                        .bias = own_bias.defined() ? own_bias.const_data_ptr<float>() : nullptr};
  const auto flops = flops_of_product(heads.rows(), weight) +
                     4.0 * static_cast<double>(heads.rows() * heads.H * heads.N * heads.D);
  const WorkScope work("fovea::read_attention", flops, bytes_of({tokens, weight}));
  const auto read = tokens.narrow(1, 0, num_queries).reshape({heads.rows(), heads.D});
  const auto wanted = heads.wanted(read, kept_strips(weight));
  return heads.given(heads.found(tokens, wanted, scale));
}

}  // namespace fovea::kernels
