#include <ATen/ops/cat.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/attention/attention_heads.h"
#include "fovea/kernels/attention/bfloat16_self_attention.h"
#include "fovea/kernels/attention/float_self_attention.h"
#include "fovea/kernels/attention/gpu_attention.h"
#include "fovea/kernels/attention/gpu_self_attention.h"
#include "fovea/kernels/kernel_paths.h"

// B batch, S sequences, N tokens of one, T of all, H heads, K head_dim, D = H K.
namespace fovea::kernels {
namespace {

enum class SelfAttentionPath {
  kTakenApart,  // attention() of q, k and v
  kFloats,      // float_self_attention.h
  kPanels,      // bfloat16_self_attention.h
};

// For sequences of N tokens.
SelfAttentionPath self_attention_path(const at::Tensor& qkv, int64_t N) {
  // Above this what a head is worked on with is far larger than second-level caches. Scores are not
  // kept whole.
  constexpr int64_t kMaxTokens = 2304;
  const auto choice = attention_choice();
  const bool is_own_wanted = choice == AttentionChoice::kAuto || choice == AttentionChoice::kOwn;
  const bool is_ours = qkv.is_cpu() && qkv.numel() > 0 &&
                       (qkv.scalar_type() == at::kFloat || qkv.scalar_type() == at::kBFloat16);
  if (!is_own_wanted || !is_ours) return SelfAttentionPath::kTakenApart;
  const bool is_long = N > kMaxTokens;
  if (is_long && choice != AttentionChoice::kOwn) return SelfAttentionPath::kTakenApart;
  const auto path = kernel_paths().of(KernelOp::kAttention, qkv.scalar_type()).path;
  switch (path) {
    case KernelPath::kReference:
      return SelfAttentionPath::kTakenApart;
    case KernelPath::kBaseline:
    case KernelPath::kAvx2:
    case KernelPath::kAvx512:
      return SelfAttentionPath::kFloats;
    case KernelPath::kAvx512Bf16:
    case KernelPath::kAmx:
      return is_long ? SelfAttentionPath::kFloats : SelfAttentionPath::kPanels;
    case KernelPath::kOneDnn:
    case KernelPath::kMkl:
      break;
  }
  fail("attention has no path {}", kernel_path_name(path));
}

// As self_attention, within each of the sequences; on a GPU of all queries, though num_queries may
// be asked for.
at::Tensor attend(SelfAttentionPath path, const at::Tensor& qkv, int64_t num_heads, double scale,
                  const std::vector<int64_t>& offsets, bool runs_again, int64_t num_queries = 0) {
  switch (path) {
    case SelfAttentionPath::kFloats:
      return float_self_attention(qkv, num_heads, scale, offsets, num_queries);
    case SelfAttentionPath::kPanels:
      return bfloat16_self_attention(qkv, num_heads, scale, offsets);
    case SelfAttentionPath::kTakenApart:
      break;
  }
  // A single sequence, or a batch of equal ones.
  if (qkv.is_cuda()) return gpu_self_attention(qkv, num_heads, scale, runs_again);
  // Not parts[0] and so on: each would give a gradient
  // as large as all three, to be added up.
  const auto parts = qkv.unflatten(-1, {3, num_heads, -1})
                         .permute({2, 0, 3, 1, 4})  // [3, B, H, N, K]
                         .unbind(0);                // each [B, H, N, K]
  const auto queries = num_queries > 0 ? parts[0].narrow(2, 0, num_queries) : parts[0];
  const auto out = attention(queries, parts[1], parts[2], scale, {}, {}, runs_again);
  return out.transpose(1, 2).flatten(2);  // [B, H, N, K] -> [B, N, D]
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

// Neighbours that one call takes.
struct SequenceRun {
  size_t first, last;      // sequences [first, last)
  SelfAttentionPath path;  // kTakenApart: a single one
};

std::vector<SequenceRun> runs_of(const at::Tensor& qkv, at::IntArrayRef offsets) {
  std::vector<SequenceRun> runs;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const auto path = self_attention_path(qkv, offsets[s + 1] - offsets[s]);
    const bool is_whole = path != SelfAttentionPath::kTakenApart;
    if (is_whole && !runs.empty() && runs.back().path == path) {
      runs.back().last = s + 1;
    } else {
      runs.push_back({s, s + 1, path});
    }
  }
  return runs;
}

}  // namespace

at::Tensor self_attention(const at::Tensor& qkv, int64_t num_heads, double scale, bool runs_again,
                          int64_t num_queries) {
  check_qkv(qkv, num_heads, scale);
  FOVEA_CHECK(num_queries >= 0 && num_queries <= qkv.size(1),
              "self_attention: {} queries of {} tokens; expected at most as many, 0 for all",
              num_queries, qkv.size(1));
  auto path = self_attention_path(qkv, qkv.size(1));
  // Panels are of 32 queries; the other kernel reads bfloat16, too.
  if (num_queries > 0 && path == SelfAttentionPath::kPanels) path = SelfAttentionPath::kFloats;
  const auto out = attend(path, qkv, num_heads, scale, even_offsets(qkv.size(0), qkv.size(1)),
                          runs_again, num_queries);
  return num_queries > 0 ? out.narrow(1, 0, num_queries) : out;
}

at::Tensor packed_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                 at::IntArrayRef offsets, bool runs_again) {
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
    const auto& [first, last, path] = runs[r];
    std::vector<int64_t> within;
    for (size_t s = first; s <= last; ++s) within.push_back(offsets[s] - offsets[first]);
    outs.push_back(attend(path, rows[r], num_heads, scale, within, runs_again));
  }
  return outs.size() == 1 ? outs.front() : at::cat(outs, 1);  // [1, T, D]
}

}  // namespace fovea::kernels
