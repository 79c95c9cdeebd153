#include "fovea/kernels/cpu/panel_attention_head.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "fovea/kernels/cpu/avx512.h"
#include "fovea/kernels/cpu/panel_scores.h"
#include "fovea/kernels/cpu/panels.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

// Rows so many values apart, or a multiple, fall into four sets of the first-level cache or fewer,
// and may put each other out.
constexpr int64_t kStrideOfFewSets = 512;

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
  // Lines of a panel that are worked on together: as many as are multiplied at once, so that their
  // scores stay in the first-level cache.
  int64_t together = scope.unit() == PanelUnit::kTiles ? kBlockSide : kMostLinesAtOnce;

  int64_t tokens(int64_t panel) const { return std::min(kBlockSide, N - panel * kBlockSide); }

  // Panel `panel` of tokens as lines of a first factor, where they lie or [k, step].
  PanelLines lines_of(InRows from, int64_t panel, int64_t which = 0) const {
    if (K % kBlockSide == 0 && from.stride % kStrideOfFewSets != 0 &&
        tokens(panel) % rows_at_once(scope.unit()) == 0) {
      return {from.data + panel * kBlockSide * from.stride, from.stride, kBlockSide};
    }
    auto* to = s.lines.reserve(2 * k * kStepValues) + which * k * kStepValues;
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
  // `count` of these lines, from `line` on, against all tokens [n, k, step] -> to: [n, together,
  // 32]. Of the padding a part may be left as it was; what follows reads no more than lines and
  // pairs that have a token.
  ScoreLines multiply_columns(PanelLines lines, int64_t line, int64_t count,
                              const uint16_t* columns, float* to) const {
    const int64_t block = together * kBlockSide;
    lines.data += line * lines.stride;
    multiply_by_panels(scope, lines, columns, {.depth = K, .lines = count, .columns = N}, to,
                       block);
    return {to, block, count};
  }
  // Asks for that row of the next head. Nothing else would, since a head's rows lie far apart; and
  // row by row, because only so many can be asked for at once.
  FOVEA_ASKS_FOR_MEMORY void prefetch_next(std::initializer_list<InRows> all, int64_t token) const {
    for (const auto& rows : all) {
      if (rows.next != 0) {
        ask_for_row</*kToWrite=*/false, 2>(rows.data + rows.next + token * rows.stride, K);
      }
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
  RowSum sums[kBlockSide];
  float inverse_sums[kBlockSide];
  for (int64_t panel = begin; panel < end; ++panel) {
    const auto queries = head.lines_of(qkv.q, panel);
    const int64_t tokens = head.tokens(panel);
    for (int64_t line = 0; line < tokens; line += head.together) {
      const auto count = std::min(head.together, tokens - line);
      exponentiate(head.multiply_columns(queries, line, count, keys, scores), N, scale,
                   rounded + line * kBlockSide, sums + line, [&](int64_t i) FOVEA_AVX512_INLINED {
                     head.prefetch_next({qkv.q, qkv.k, qkv.v}, panel * kBlockSide + line + i);
                   });
    }
    for (int64_t row = 0; row < tokens; ++row) inverse_sums[row] = 1.0f / sums[row].total;
    for (int64_t row = 0; log_sums && row < tokens; ++row) {
      log_sums[panel * kBlockSide + row] = sums[row].largest + std::log(sums[row].total);
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
    const auto keys = head.lines_of(qkv.k, panel, 0), values = head.lines_of(qkv.v, panel, 1);
    const int64_t tokens = head.tokens(panel);
    for (int64_t line = 0; line < tokens; line += head.together) {
      const auto count = std::min(head.together, tokens - line);
      const auto s_lines =
          head.multiply_columns(keys, line, count, queries, scores);  // S^T = K Q^T
      const auto dp_lines =
          head.multiply_columns(values, line, count, dout_columns, dscores);  // dP^T = V dO^T
      const int64_t at = line * kBlockSide;
      differentiate(
          s_lines, dp_lines, N, scale, sums, p + at, ds + at, [&](int64_t i) FOVEA_AVX512_INLINED {
            head.prefetch_next({qkv.q, qkv.k, qkv.v, out, dout}, panel * kBlockSide + line + i);
          });
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
