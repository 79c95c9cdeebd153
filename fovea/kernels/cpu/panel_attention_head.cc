#include "fovea/kernels/cpu/panel_attention_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "fovea/kernels/cpu/avx512.h"
#include "fovea/kernels/cpu/panels.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

// Rows so many values apart, or a multiple, fall into four sets of the first-level cache or fewer,
// and may put each other out.
constexpr int64_t kStrideOfFewSets = 512;

constexpr auto kLog2OfE = std::numbers::log2e_v<float>;

FOVEA_AVX512 inline void store_rounded(__m512 low, __m512 high, uint16_t* to) {
  _mm512_store_si512(to, round_to_bfloat16(low, high));
}

// Which columns of a row's last block are there, of `N` in all.
struct LastBlock {
  __mmask16 low, high;
};
FOVEA_AVX512 inline LastBlock last_block(int64_t N) {
  const auto bits = first_values((N - 1) % kBlockSide + 1);
  return {static_cast<__mmask16>(bits), static_cast<__mmask16>(bits >> 16)};
}

// One row of scores to probabilities that are not divided by their sum yet, rounded -> that sum, of
// powers of what the scores are less than their largest. scores: that row of [n, block], `N` of it
// there; rounded: of [n, step], with zeros in the padding.
struct RowSum {
  float total, largest;
};
FOVEA_AVX512 inline RowSum exponentiate_row(const float* scores, int64_t N, float scale,
                                            uint16_t* rounded) {
  const auto last = last_block(N);
  const int64_t blocks = num_blocks(N);
  auto low = _mm512_set1_ps(-std::numeric_limits<float>::infinity()), high = low;
  for (int64_t i = 0; i < blocks; ++i) {
    const bool is_last = i + 1 == blocks;
    const auto* block = scores + i * kBlockValues;
    low = _mm512_mask_max_ps(low, is_last ? last.low : 0xFFFF, low, _mm512_load_ps(block));
    high = _mm512_mask_max_ps(high, is_last ? last.high : 0xFFFF, high, _mm512_load_ps(block + 16));
  }
  const float largest = _mm512_reduce_max_ps(_mm512_max_ps(low, high));
  const auto factor = _mm512_set1_ps(scale * kLog2OfE);
  const auto offset = _mm512_set1_ps(largest * (scale * kLog2OfE));
  auto low_sum = _mm512_setzero_ps(), high_sum = low_sum;
  for (int64_t i = 0; i < blocks; ++i) {
    const bool is_last = i + 1 == blocks;
    const auto* block = scores + i * kBlockValues;
    low = exp2(_mm512_fmsub_ps(_mm512_load_ps(block), factor, offset));
    high = exp2(_mm512_fmsub_ps(_mm512_load_ps(block + 16), factor, offset));
    low = _mm512_maskz_mov_ps(is_last ? last.low : 0xFFFF, low);
    high = _mm512_maskz_mov_ps(is_last ? last.high : 0xFFFF, high);
    low_sum = _mm512_add_ps(low_sum, low);
    high_sum = _mm512_add_ps(high_sum, high);
    store_rounded(low, high, rounded + i * kStepValues);
  }
  return {_mm512_reduce_add_ps(_mm512_add_ps(low_sum, high_sum)), largest};
}

// What a row of transposed scores, one key's, is differentiated with: by query, padded.
struct Queries {
  const float* log_sums;  // to base 2
  const float* row_sums;  // of P dP over keys
};

// Of one key: scores and dP, a row of [n, block] each -> P and dS = P (dP - row sums) scale,
// rounded into a row of [n, step] each, of `N` queries, with zeros in the padding.
FOVEA_AVX512 inline void differentiate_row(const float* scores, const float* dscores, int64_t N,
                                           float scale, const Queries& queries, uint16_t* rounded,
                                           uint16_t* drounded) {
  const auto last = last_block(N);
  const int64_t blocks = num_blocks(N);
  const auto factor = _mm512_set1_ps(scale * kLog2OfE), scales = _mm512_set1_ps(scale);
  for (int64_t i = 0; i < blocks; ++i) {
    const bool is_last = i + 1 == blocks;
    __m512 p[2], ds[2];
    for (int half = 0; half < 2; ++half) {
      const int64_t at = i * kBlockValues + 16 * half, query = i * kBlockSide + 16 * half;
      const __mmask16 mask = !is_last ? 0xFFFF : half == 0 ? last.low : last.high;
      p[half] = _mm512_maskz_mov_ps(
          mask, exp2(_mm512_fmsub_ps(_mm512_load_ps(scores + at), factor,
                                     _mm512_load_ps(queries.log_sums + query))));
      const auto rest =
          _mm512_sub_ps(_mm512_load_ps(dscores + at), _mm512_load_ps(queries.row_sums + query));
      ds[half] = _mm512_maskz_mul_ps(mask, _mm512_mul_ps(p[half], scales), rest);
    }
    store_rounded(p[0], p[1], rounded + i * kStepValues);
    store_rounded(ds[0], ds[1], drounded + i * kStepValues);
  }
}

// a b of two rows of bfloat16.
FOVEA_AVX512 float dot(const uint16_t* a, const uint16_t* b, int64_t K) {
  auto sums = _mm512_setzero_ps();
  for (int64_t k = 0; k < K; k += kBlockSide) {
    const auto mask = first_values(K - k);
    sums = _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(mask, a + k)),
                            reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(mask, b + k)));
  }
  return _mm512_reduce_add_ps(sums);
}

// What both passes have at hand.
struct Head {
  const PanelScope& scope;
  PanelAttentionScratch& s;
  int64_t N, K;
  int64_t n = num_blocks(N), k = num_blocks(K);

  int64_t tokens(int64_t panel) const { return std::min(kBlockSide, N - panel * kBlockSide); }

  // Panel `panel` of tokens as lines of a first factor, where they lie or [k, step].
  PanelLines lines_of(InRows from, int64_t panel) const {
    if (K % kBlockSide == 0 && from.stride % kStrideOfFewSets != 0 &&
        tokens(panel) % rows_at_once(scope.unit()) == 0) {
      return {from.data + panel * kBlockSide * from.stride, from.stride, kBlockSide};
    }
    auto* to = s.lines.reserve(k * kStepValues);
    pack_first({from.data, from.stride}, panel * kBlockSide, tokens(panel), 0, K, to);
    return {to};
  }
  // All tokens as columns of a second factor: [n, k, step].
  const uint16_t* pack_columns(InRows from, int64_t which) const {
    auto* to = s.columns.reserve(2 * n * k * kStepValues) + which * n * k * kStepValues;
    for (int64_t panel = 0; panel < n; ++panel) {
      pack_second({from.data, from.stride, /*is_transposed=*/true}, panel * kBlockSide,
                  tokens(panel), 0, K, to + panel * k * kStepValues);
    }
    return to;
  }
  // All tokens as depth of a second factor: [k, n, step].
  const uint16_t* pack_rows(InRows from, int64_t which) const {
    auto* to = s.rows.reserve(3 * n * k * kStepValues) + which * n * k * kStepValues;
    for (int64_t panel = 0; panel < k; ++panel) {
      pack_second({from.data, from.stride}, panel * kBlockSide,
                  std::min(kBlockSide, K - panel * kBlockSide), 0, N, to + panel * n * kStepValues);
    }
    return to;
  }
  // Tokens of panel `of` [k, step] against all [n, k, step] -> [n, block]. Of the padding a part
  // may be left as it was; what follows reads no more than lines and pairs that have a token.
  void multiply_columns(const PanelLines& lines, int64_t of, const uint16_t* columns,
                        float* to) const {
    for (int64_t panel = 0; panel < n; ++panel) {
      multiply_panels(scope, lines, {columns + panel * k * kStepValues},
                      {.depth = K, .lines = tokens(of), .columns = tokens(panel)}, false,
                      to + panel * kBlockValues);
    }
  }
  // Asks for a row of the next head, which lies beside this one's. Nothing else would, since a
  // head's rows lie far apart; and row by row, because only so many can be asked for at once.
  void prefetch_next(InRows rows, int64_t token) const {
    const auto* next = rows.data + token * rows.stride + K;
    for (int64_t value = 0; value < K; value += 32) {
      __builtin_prefetch(next + value, /*rw=*/0, /*locality=*/2);
    }
  }
  // 32 lines with all tokens in depth [n, step] times [k, n, step], each line times its factor
  // (null: 1): rows of panel `panel` of tokens.
  void multiply_rows(const uint16_t* lines, const uint16_t* rows, const float* factors,
                     int64_t panel, OutRows to) const {
    auto* block = s.out.reserve(kBlockValues);
    for (int64_t i = 0; i < k; ++i) {
      const auto columns = std::min(kBlockSide, K - i * kBlockSide);
      const BlockTarget target{.data = to.data + panel * kBlockSide * to.stride + i * kBlockSide,
                               .stride = to.stride,
                               .rows = tokens(panel),
                               .columns = columns,
                               .row_factors = factors};
      ask_for(target);
      multiply_panels(scope, {lines}, {rows + i * n * kStepValues},
                      {.depth = N, .lines = tokens(panel), .columns = columns}, false, block);
      store_block(block, target);
    }
  }

  // Of every query: P's normaliser, and the sum over keys of P dP.
  Queries sums_of_queries(InRows out, InRows dout, const float* log_sums) const {
    const int64_t padded = n * kBlockSide;
    auto *logs = s.log_sums.reserve(padded), *sums = s.row_sums.reserve(padded);
    for (int64_t i = 0; i < N; ++i) {
      logs[i] = log_sums[i] * kLog2OfE;
      sums[i] = dot(out.data + i * out.stride, dout.data + i * dout.stride, K);
    }
    // differentiate_row leaves out queries that are not there.
    std::fill(logs + N, logs + padded, 0.0f);
    std::fill(sums + N, sums + padded, 0.0f);
    return {logs, sums};
  }
  // [n, step], lines of panel `panel` of tokens: zeros where there is no token.
  void clear_padding(int64_t panel, uint16_t* steps) const {
    for (int64_t i = 0; i < n; ++i) {
      auto* step = steps + i * kStepValues;
      std::fill(step + tokens(panel) * kBlockSide, step + kStepValues, 0);
    }
  }
};

}  // namespace

void panel_attention_forward(const PanelScope& scope, PanelAttentionScratch& s, const QkvRows& qkv,
                             const QueryPart& part, int64_t N, int64_t K, float scale, OutRows out,
                             float* log_sums) {
  const Head head{scope, s, N, K};
  const int64_t n = head.n;
  const int64_t begin = n * part.index / part.count, end = n * (part.index + 1) / part.count;
  if (begin == end) return;
  const auto *keys = head.pack_columns(qkv.k, 0), *values = head.pack_rows(qkv.v, 0);
  auto* scores = s.scores.reserve(2 * n * kBlockValues);
  auto* rounded = s.rounded.reserve(2 * n * kStepValues);
  float inverse_sums[kBlockSide];
  for (int64_t panel = begin; panel < end; ++panel) {
    head.multiply_columns(head.lines_of(qkv.q, panel), panel, keys, scores);
    for (int64_t row = 0; row < head.tokens(panel); ++row) {
      for (const auto& rows : {qkv.q, qkv.k, qkv.v}) {
        head.prefetch_next(rows, panel * kBlockSide + row);
      }
      const auto sum =
          exponentiate_row(scores + row * kBlockSide, N, scale, rounded + row * kBlockSide);
      inverse_sums[row] = 1.0f / sum.total;
      if (log_sums == nullptr) continue;
      log_sums[panel * kBlockSide + row] = sum.largest * scale + std::log(sum.total);
    }
    head.multiply_rows(rounded, values, inverse_sums, panel, out);
  }
}

// Works on transposed scores, 32 keys by all queries, because those are the first factor of dV and
// dK. dS itself, the first factor of dQ, is collected on the way.
void panel_attention_backward(const PanelScope& scope, PanelAttentionScratch& s, const QkvRows& qkv,
                              InRows out, InRows dout, const float* given_log_sums, int64_t N,
                              int64_t K, float scale, const QkvGradientRows& gradients) {
  const Head head{scope, s, N, K};
  const int64_t n = head.n;
  const auto sums = head.sums_of_queries(out, dout, given_log_sums);
  const auto *queries = head.pack_columns(qkv.q, 0), *dout_columns = head.pack_columns(dout, 1);
  const auto *query_rows = head.pack_rows(qkv.q, 0), *dout_rows = head.pack_rows(dout, 1),
             *key_rows = head.pack_rows(qkv.k, 2);
  auto* scores = s.scores.reserve(2 * n * kBlockValues);
  auto* dscores = scores + n * kBlockValues;
  auto* p = s.rounded.reserve(2 * n * kStepValues);
  auto* ds = p + n * kStepValues;
  auto* ds_of_queries = s.dscores.reserve(n * n * kStepValues);
  for (int64_t panel = 0; panel < n; ++panel) {
    head.multiply_columns(head.lines_of(qkv.k, panel), panel, queries, scores);  // S^T = K Q^T
    head.multiply_columns(head.lines_of(qkv.v, panel), panel, dout_columns,
                          dscores);  // dP^T = V dO^T
    for (int64_t row = 0; row < head.tokens(panel); ++row) {
      for (const auto& rows : {qkv.q, qkv.k, qkv.v, out, dout}) {
        head.prefetch_next(rows, panel * kBlockSide + row);
      }
      const int64_t at = row * kBlockSide;
      differentiate_row(scores + at, dscores + at, N, scale, sums, p + at, ds + at);
    }
    head.clear_padding(panel, p);
    head.clear_padding(panel, ds);
    head.multiply_rows(p, dout_rows, nullptr, panel, gradients.v);    // dV = P^T dO
    head.multiply_rows(ds, query_rows, nullptr, panel, gradients.k);  // dK = dS^T Q
    for (int64_t i = 0; i < n; ++i) {
      pack_first({ds + i * kStepValues, kBlockSide, /*is_transposed=*/true}, 0, kBlockSide, 0,
                 kBlockSide, ds_of_queries + (i * n + panel) * kStepValues);
    }
  }
  for (int64_t i = 0; i < n; ++i) {  // dQ = dS K
    head.multiply_rows(ds_of_queries + i * n * kStepValues, key_rows, nullptr, i, gradients.q);
  }
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#else

namespace fovea::kernels::cpu {

void panel_attention_forward(const PanelScope&, PanelAttentionScratch&, const QkvRows&,
                             const QueryPart&, int64_t, int64_t, float, OutRows, float*) {
  refuse_panels();
}

void panel_attention_backward(const PanelScope&, PanelAttentionScratch&, const QkvRows&, InRows,
                              InRows, const float*, int64_t, int64_t, float,
                              const QkvGradientRows&) {
  refuse_panels();
}

}  // namespace fovea::kernels::cpu

#endif
