#include "fovea/kernels/cpu/attention_head.h"

#include <algorithm>
#include <cmath>
#include <numbers>

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/kernels/cpu/attention_head.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "fovea/kernels/cpu/exp.inc"
#include "fovea/kernels/cpu/highway_targets.h"
#include "fovea/kernels/cpu/small_product.inc"

// N tokens, K head_dim, Kp the same padded to whole vectors.
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The most queries and keys of a block: whole blocks of rows, as many as a strip has columns, and
// whole strips. A photograph's 197 tokens are one block of keys, whose scores lie in the
// second-level cache.
constexpr int64_t kQueries = 66, kKeys = kStripVectors == 4 ? 256 : 224;
// Rows of scores are an odd number of cache lines apart, so that those of one column do not all
// fall into the same few lines of the cache.
constexpr int64_t kScoreStride = kKeys + 16;
constexpr int64_t kLanes = 16;  // of the widest vector
constexpr auto kLog2OfE = std::numbers::log2e_v<float>;

HWY_INLINE int64_t padded(int64_t count, int64_t unit = kLanes) {
  return (count + unit - 1) / unit * unit;
}

// Queries of a block, of `count` in all: as even as whole blocks of rows allow.
HWY_INLINE int64_t num_queries(int64_t count) {
  const int64_t blocks = (count + kQueries - 1) / kQueries;
  return padded((count + blocks - 1) / blocks, kBlockRows);
}

// What both passes have at hand. The buffers of a block of queries come one behind another.
struct Head {
  AttentionScratch& s;
  int64_t N, K;
  int64_t Kp = padded(K), strips = padded(Kp, strip_columns());
  int64_t size = strips * kQueries, num_scores = kQueries * kScoreStride;
  float* q = s.block.reserve(6 * size + 2 * num_scores + kQueries * (kLanes + 1));  // [rows, Kp]
  float* dout = q + size;                                                           // [rows, Kp]
  float* result = dout + size;  // [rows, Kp]: of a block of queries, out or dq
  float* staged = result + size;
  float *q_strips = staged + size, *dout_strips = q_strips + size;
  float *scores = dout_strips + size, *dscores = scores + num_scores;
  float* sums = dscores + num_scores;         // [rows, kLanes]
  float* offsets = sums + kQueries * kLanes;  // [rows]

  // Tokens of whole vectors: where they lie, or staged.
  Lines lines(const InRowsOfHead& from, int64_t first, int64_t count) const {
    const auto* floats = from.floats(first);
    if (floats && K == Kp) return {floats, from.stride};
    from.load(first, count, K, staged, Kp);
    return {staged, Kp};
  }
  // All tokens side by side.
  Strips columns(const InRowsOfHead& from, int64_t which) const {
    const int64_t strip = strip_columns(), Np = padded(N, std::max(strip, kLanes)),
                  depth = padded(K, 4);
    float* to = s.columns.reserve(2 * Np * depth) + which * Np * depth;
    for (int64_t first = 0; first < Np; first += strip) {
      const int64_t count = std::clamp<int64_t>(N - first, 0, strip);
      auto packed = Lines{staged, Kp};
      if (count == strip) {
        packed = lines(from, first, count);
      } else {
        from.load(first, count, K, staged, Kp);
        std::fill(staged + count * Kp, staged + strip * Kp, 0.0f);
      }
      pack_columns(packed.data, packed.stride, depth, to + first * depth);
    }
    return {to, depth};
  }
  // All tokens in depth.
  Strips rows(const InRowsOfHead& from) const {
    float* to = s.rows.reserve(strips * N);
    for (int64_t first = 0; first < N; first += kQueries) {
      const int64_t count = std::min(kQueries, N - first);
      const auto packed = lines(from, first, count);
      pack_rows(packed.data, packed.stride, count, Kp, to + first * strip_columns(), N);
    }
    return {to, N};
  }
};

// The strips of tokens from `key` on, a whole strip.
HWY_INLINE Strips columns_from(const Strips& all, int64_t key) {
  return {all.data + key * all.stride, all.stride};
}
HWY_INLINE Strips rows_from(const Strips& all, int64_t key) {
  return {all.data + key * strip_columns(), all.stride};
}

// c = a b of the first block of keys, c += a b of those behind it.
template <class First>
HWY_INLINE void multiply_onto(bool adds, First a, Strips b, int64_t rows, int64_t depth,
                              int64_t columns, Sums c) {
  if (adds) {
    multiply<true>(a, b, rows, depth, columns, c);
  } else {
    multiply<false>(a, b, rows, depth, columns, c);
  }
}

HWY_INLINE void scale_row(float* row, int64_t columns, float factor) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < columns; j += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + j), hn::Set(d, factor)), d, row + j);
  }
}

HWY_INLINE float dot(const float* a, const float* b, int64_t columns) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < columns; j += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + j), hn::LoadU(d, b + j), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE float sum_of_row(const float* row, int64_t columns) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < columns; j += lanes) sum = hn::Add(sum, hn::LoadU(d, row + j));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// What a row's exponents are relative to, and the sums of its exponentials so far.
struct RowState {
  float* offset;  // to base 2
  float* sums;    // [kLanes]
};

// Takes a new offset only where the largest score would lie far above the one before, which the
// sums and the row of the output so far are then brought to.
HWY_INLINE void offset_row(const float* row, int64_t columns, float factor, bool is_first,
                           const RowState& state, float* out, int64_t Kp) {
  constexpr float kMostAbove = 16.0f;  // 2^16: what is summed is as precise, and far from infinity
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::LoadU(d, row);
  for (int64_t j = lanes; j < columns; j += lanes) most = hn::Max(most, hn::LoadU(d, row + j));
  const float largest = hn::GetLane(hn::MaxOfLanes(d, most)) * factor;
  if (is_first) {
    *state.offset = largest;
    std::fill_n(state.sums, kLanes, 0.0f);
  } else if (!(largest <= *state.offset + kMostAbove)) {
    const float shrink = std::exp2(*state.offset - largest);
    scale_row(state.sums, kLanes, shrink);
    scale_row(out, Kp, shrink);
    *state.offset = largest;
  }
}

// A row of the scores of a block's keys to probabilities that are not divided by their sum yet:
// 2^(score factor - offset).
HWY_INLINE void exponentiate_row(float* row, int64_t columns, float factor, const RowState& state) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor), offsets = hn::Set(d, *state.offset);
  auto sum = hn::LoadU(d, state.sums);
  for (int64_t j = 0; j < columns; j += lanes) {
    const auto e = exp2_nonpositive(hn::MulSub(hn::LoadU(d, row + j), factors, offsets));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, row + j);
  }
  hn::StoreU(sum, d, state.sums);
}

// What a block of keys adds to the sums and the output of a block of queries. after_row(r): called
// as each row is done with, for what is as well done between two.
template <class AfterRow>
HWY_INLINE void attend_to_block(const Head& head, Strips keys, Strips values, int64_t rows,
                                int64_t key, float factor, const AfterRow& after_row) {
  const int64_t Kp = head.Kp, count = std::min(kKeys, head.N - key);
  const int64_t columns = padded(count);
  multiply<false>(Lines{head.q, Kp}, columns_from(keys, key), rows, head.K, columns,
                  {head.scores, kScoreStride});
  const auto state = [&](int64_t r) { return RowState{head.offsets + r, head.sums + r * kLanes}; };
  // Offsets of all rows first: then exponentials of one row do not wait for the next one's largest.
  for (int64_t r = 0; r < rows; ++r) {
    auto* row = head.scores + r * kScoreStride;
    std::fill(row + count, row + columns, hwy::LowestValue<float>());
    offset_row(row, columns, factor, key == 0, state(r), head.result + r * Kp, Kp);
  }
  for (int64_t r = 0; r < rows; ++r) {
    exponentiate_row(head.scores + r * kScoreStride, columns, factor, state(r));
    after_row(r);
  }
  multiply_onto(key > 0, Lines{head.scores, kScoreStride}, rows_from(values, key), rows, count, Kp,
                {head.result, Kp});
}

void forward(AttentionScratch& s, const QkvOfHead<InRowsOfHead>& qkv, int64_t N, int64_t K,
             float scale, int64_t begin, int64_t end, const OutRowsOfHead& out, float* log_sums) {
  if (begin == end) return;  // of few queries in many parts
  const Head head{s, N, K};
  const int64_t Kp = head.Kp, most = num_queries(end - begin);
  const auto keys = head.columns(qkv.k, 0), values = head.rows(qkv.v);
  for (int64_t first = begin; first < end; first += most) {
    const int64_t rows = std::min(most, end - first);
    qkv.q.load(first, rows, K, head.q, Kp);
    for (int64_t key = 0; key < N; key += kKeys) {
      attend_to_block(head, keys, values, rows, key, scale * kLog2OfE, [&](int64_t r) {
        if (key > 0) return;
        for (const auto* next : {&qkv.q, &qkv.k, &qkv.v}) next->prefetch_next(first + r, K);
      });
    }
    for (int64_t r = 0; r < rows; ++r) {
      const float sum = sum_of_row(head.sums + r * kLanes, kLanes);
      scale_row(head.result + r * Kp, Kp, 1.0f / sum);
      if (log_sums != nullptr) log_sums[first + r] = head.offsets[r] + std::log2(sum);
    }
    out.store(first, rows, K, head.result, Kp);
  }
}

// A row of scores to probabilities, and of their gradients to those of the scores, but for the
// scale: dS = P (dP - row_sum).
HWY_INLINE void differentiate_row(float* row, float* drow, int64_t columns, float factor,
                                  float log_sum, float row_sum) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor), logs = hn::Set(d, log_sum);
  const auto sums = hn::Set(d, row_sum);
  for (int64_t j = 0; j < columns; j += lanes) {
    const auto p = exp2_nonpositive(hn::MulSub(hn::LoadU(d, row + j), factors, logs));
    hn::StoreU(p, d, row + j);
    hn::StoreU(hn::Mul(p, hn::Sub(hn::LoadU(d, drow + j), sums)), d, drow + j);
  }
}

// All tokens packed for the backward pass.
struct Packed {
  Strips keys, values, key_rows;
};

// What a block of queries, the one that `first` begins, and one of keys add to the gradients, but
// for the scale of dq and dk. after_row: see attend_to_block.
template <class AfterRow>
HWY_INLINE void differentiate_block(const Head& head, const Packed& all, int64_t first,
                                    int64_t rows, int64_t key, float factor, const float* log_sums,
                                    const AfterRow& after_row) {
  const int64_t K = head.K, Kp = head.Kp, count = std::min(kKeys, head.N - key);
  const int64_t columns = padded(count);
  const Sums scores{head.scores, kScoreStride}, dscores{head.dscores, kScoreStride};
  multiply<false>(Lines{head.q, Kp}, columns_from(all.keys, key), rows, K, columns, scores);
  multiply<false>(Lines{head.dout, Kp}, columns_from(all.values, key), rows, K, columns,
                  dscores);  // dP = dO V^T
  for (int64_t r = 0; r < rows; ++r) {
    differentiate_row(scores.data + r * kScoreStride, dscores.data + r * kScoreStride, columns,
                      factor, log_sums[first + r], head.sums[r]);
    after_row(r);
  }
  multiply_onto(first > 0, TransposedLines{head.scores, kScoreStride},
                Strips{head.dout_strips, kQueries}, count, rows, Kp,
                {head.s.dv.data() + key * Kp, Kp});  // dV = P^T dO
  multiply_onto(first > 0, TransposedLines{head.dscores, kScoreStride},
                Strips{head.q_strips, kQueries}, count, rows, Kp,
                {head.s.dk.data() + key * Kp, Kp});  // dK = dS^T Q
  multiply_onto(key > 0, Lines{head.dscores, kScoreStride}, rows_from(all.key_rows, key), rows,
                count, Kp, {head.result, Kp});  // dQ = dS K
}

void backward(AttentionScratch& s, const QkvOfHead<InRowsOfHead>& qkv, const InRowsOfHead& out,
              const InRowsOfHead& dout, const float* log_sums, int64_t N, int64_t Q, int64_t K,
              float scale, const QkvOfHead<OutRowsOfHead>& gradients) {
  const Head head{s, N, K};
  const int64_t Kp = head.Kp, most = num_queries(Q);
  const Packed all{head.columns(qkv.k, 0), head.columns(qkv.v, 1), head.rows(qkv.k)};
  auto *dk = s.dk.reserve(N * Kp), *dv = s.dv.reserve(N * Kp);
  for (int64_t first = 0; first < Q; first += most) {
    const int64_t rows = std::min(most, Q - first);
    out.load(first, rows, K, head.staged, Kp);
    dout.load(first, rows, K, head.dout, Kp);
    for (int64_t r = 0; r < rows; ++r) {
      head.sums[r] = dot(head.staged + r * Kp, head.dout + r * Kp, Kp);
    }
    qkv.q.load(first, rows, K, head.q, Kp);
    pack_rows(head.q, Kp, rows, Kp, head.q_strips, kQueries);
    pack_rows(head.dout, Kp, rows, Kp, head.dout_strips, kQueries);
    for (int64_t key = 0; key < N; key += kKeys) {
      differentiate_block(head, all, first, rows, key, scale * kLog2OfE, log_sums, [&](int64_t r) {
        if (key > 0) return;
        for (const auto* next : {&qkv.q, &qkv.k, &qkv.v, &out, &dout}) {
          next->prefetch_next(first + r, K);
        }
      });
    }
    scale_row(head.result, rows * Kp, scale);
    gradients.q.store(first, rows, K, head.result, Kp);
  }
  gradients.q.clear(Q, N - Q, K);
  scale_row(dk, N * Kp, scale);
  gradients.k.store(0, N, K, dk, Kp);
  gradients.v.store(0, N, K, dv, Kp);
}

}  // namespace
}  // namespace fovea::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels::cpu {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

void attention_head_forward(AttentionScratch& scratch, const QkvOfHead<InRowsOfHead>& qkv,
                            int64_t N, int64_t K, float scale, int64_t begin, int64_t end,
                            const OutRowsOfHead& out, float* log_sums) {
  FOVEA_DISPATCH(KernelOp::kAttention, forward)
  (scratch, qkv, N, K, scale, begin, end, out, log_sums);
}

void attention_head_backward(AttentionScratch& scratch, const QkvOfHead<InRowsOfHead>& qkv,
                             const InRowsOfHead& out, const InRowsOfHead& dout,
                             const float* log_sums, int64_t N, int64_t Q, int64_t K, float scale,
                             const QkvOfHead<OutRowsOfHead>& gradients) {
  FOVEA_DISPATCH(KernelOp::kAttention, backward)
  (scratch, qkv, out, dout, log_sums, N, Q, K, scale, gradients);
}

}  // namespace fovea::kernels::cpu
#endif
