#include "fovea/kernels/cpu/attention_head.h"

#include <algorithm>
#include <utility>

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/kernels/cpu/attention_head.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "fovea/kernels/cpu/exp.inc"

// N tokens, K head_dim, Np and Kp the same padded to whole vectors.
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
// A matrix that is read element by element: a(r, c) = data[r * row + c * column].
struct Strided {
  const float* data;
  int64_t row;
  int64_t column;
};

// Loops over Rows and Vectors must be unrolled: only then do the sums stand in registers, and -O2
// does not do it by itself.
//
// A block of c = a b: Rows rows and Vectors vectors of columns, summed in registers. depth: inner
// dim; b: [depth, columns], c: [Rows, columns].
template <int Rows, int Vectors>
HWY_INLINE void multiply_block(Strided a, const float* b, int64_t depth, int64_t columns,
                               float* c) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Tag> sum[Rows][Vectors];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 12
    for (int v = 0; v < Vectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t i = 0; i < depth; ++i) {
    hn::Vec<Tag> row[Vectors];
#pragma GCC unroll 12
    for (int v = 0; v < Vectors; ++v) row[v] = hn::LoadU(d, b + i * columns + v * lanes);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const auto factor = hn::Set(d, a.data[r * a.row + i * a.column]);
#pragma GCC unroll 12
      for (int v = 0; v < Vectors; ++v) sum[r][v] = hn::MulAdd(factor, row[v], sum[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 12
    for (int v = 0; v < Vectors; ++v) hn::StoreU(sum[r][v], d, c + r * columns + v * lanes);
  }
}

// All rows of `Vectors` vectors of columns, so that this part of b stays in the first-level cache.
template <int Rows, int Vectors>
HWY_INLINE void multiply_columns(Strided a, const float* b, int64_t rows, int64_t depth,
                                 int64_t columns, float* c) {
  int64_t i = 0;
  const auto from = [&](int64_t row) { return Strided{a.data + row * a.row, a.row, a.column}; };
  for (; i + Rows <= rows; i += Rows) {
    multiply_block<Rows, Vectors>(from(i), b, depth, columns, c + i * columns);
  }
  for (; i + 4 <= rows; i += 4) {
    multiply_block<4, Vectors>(from(i), b, depth, columns, c + i * columns);
  }
  for (; i < rows; ++i) multiply_block<1, Vectors>(from(i), b, depth, columns, c + i * columns);
}

// c = a b. a: [rows, depth] strided, b: [depth, columns], c: [rows, columns]; columns in whole
// vectors.
HWY_INLINE void multiply(Strided a, const float* b, int64_t rows, int64_t depth, int64_t columns,
                         float* c) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  int64_t j = 0;
  // Sums held in registers: 24 of the 32 that AVX-512 has, 12 of 16 elsewhere. Wide blocks load
  // least, but only while their part of b fits into 32 KiB.
#if HWY_TARGET <= HWY_AVX3
  if (depth * 4 * lanes <= 8192) {
    for (; j + 4 * lanes <= columns; j += 4 * lanes) {
      multiply_columns<6, 4>(a, b + j, rows, depth, columns, c + j);
    }
  }
  constexpr int kRows = 12;
#else
  constexpr int kRows = 6;
#endif
  for (; j + 2 * lanes <= columns; j += 2 * lanes) {
    multiply_columns<kRows, 2>(a, b + j, rows, depth, columns, c + j);
  }
  for (; j < columns; j += lanes) {
    multiply_columns<kRows, 1>(a, b + j, rows, depth, columns, c + j);
  }
}

// to: [columns, to_row] = from^T, from: [rows, columns]; in tiles, each of which stays in cache.
HWY_INLINE void transpose(const float* from, int64_t rows, int64_t columns, int64_t to_row,
                          float* to) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = r0; r < r1; ++r) to[c * to_row + r] = from[r * columns + c];
    }
  }
}

// Scores to probabilities, row by row; padding becomes 0. p: [N, Np].
HWY_INLINE void softmax_rows(float* p, int64_t N, int64_t Np, float scale) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  for (int64_t i = 0; i < N; ++i) {
    float* row = p + i * Np;
    std::fill(row + N, row + Np, hwy::LowestValue<float>());
    auto largest = hn::Set(d, hwy::LowestValue<float>());
    for (int64_t j = 0; j < Np; j += lanes) largest = hn::Max(largest, hn::LoadU(d, row + j));
    largest = hn::MaxOfLanes(d, largest);
    auto sum = hn::Zero(d);
    for (int64_t j = 0; j < Np; j += lanes) {
      const auto e = exp_nonpositive(hn::Mul(hn::Sub(hn::LoadU(d, row + j), largest), factor));
      sum = hn::Add(sum, e);
      hn::StoreU(e, d, row + j);
    }
    const auto inverse = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
    for (int64_t j = 0; j < Np; j += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, row + j), inverse), d, row + j);
    }
  }
}

// Gradients of the probabilities to gradients of the scores: dS = P (dP - rowsum(P dP)) scale, in
// place of dp. p and dp: [N, Np].
HWY_INLINE void softmax_rows_backward(const float* p, float* dp, int64_t N, int64_t Np,
                                      float scale) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  for (int64_t i = 0; i < N; ++i, p += Np, dp += Np) {
    auto sum = hn::Zero(d);
    for (int64_t j = 0; j < Np; j += lanes) {
      sum = hn::MulAdd(hn::LoadU(d, p + j), hn::LoadU(d, dp + j), sum);
    }
    sum = hn::SumOfLanes(d, sum);
    for (int64_t j = 0; j < Np; j += lanes) {
      const auto scaled = hn::Mul(hn::LoadU(d, p + j), factor);
      hn::StoreU(hn::Mul(scaled, hn::Sub(hn::LoadU(d, dp + j), sum)), d, dp + j);
    }
  }
}

HWY_INLINE void probabilities(AttentionScratch& s, int64_t N, int64_t K, float scale) {
  const int64_t Np = s.padded_tokens, Kp = s.padded_width;
  transpose(s.k, N, Kp, Np, s.k_t);
  multiply({s.q, Kp, 1}, s.k_t, N, K, Np, s.p);
  softmax_rows(s.p, N, Np, scale);
}

void forward(AttentionScratch& s, int64_t N, int64_t K, float scale) {
  probabilities(s, N, K, scale);
  multiply({s.p, s.padded_tokens, 1}, s.v, N, N, s.padded_width, s.out);
}

void backward(AttentionScratch& s, int64_t N, int64_t K, float scale) {
  const int64_t Np = s.padded_tokens, Kp = s.padded_width;
  probabilities(s, N, K, scale);
  transpose(s.v, N, Kp, Np, s.v_t);
  multiply({s.p, 1, Np}, s.dout, N, N, Kp, s.dv);    // dV = P^T dO
  multiply({s.dout, Kp, 1}, s.v_t, N, K, Np, s.dp);  // dP = dO V^T
  softmax_rows_backward(s.p, s.dp, N, Np, scale);
  multiply({s.dp, Np, 1}, s.k, N, N, Kp, s.dq);  // dQ = dS K
  multiply({s.dp, 1, Np}, s.q, N, N, Kp, s.dk);  // dK = dS^T Q
}

}  // namespace
}  // namespace fovea::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels::cpu {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

namespace {

constexpr int64_t kLanes = 16;  // of the widest vector

int64_t padded(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

}  // namespace

void AttentionScratch::resize(int64_t N, int64_t K) {
  if (N == tokens_ && K == width_) return;
  tokens_ = N;
  width_ = K;
  padded_tokens = padded(N);
  padded_width = padded(K);
  const int64_t rows = N * padded_width, transposed = padded_width * padded_tokens,
                scores = N * padded_tokens;
  memory_.assign(static_cast<size_t>(8 * rows + 2 * transposed + 2 * scores), 0.0f);
  float* next = memory_.data();
  const auto take = [&next](int64_t count) { return std::exchange(next, next + count); };
  for (float** buffer : {&q, &k, &v, &out, &dout, &dq, &dk, &dv}) *buffer = take(rows);
  for (float** buffer : {&k_t, &v_t}) *buffer = take(transposed);
  for (float** buffer : {&p, &dp}) *buffer = take(scores);
}

void attention_head_forward(AttentionScratch& scratch, int64_t N, int64_t K, float scale) {
  HWY_DYNAMIC_DISPATCH(forward)(scratch, N, K, scale);
}

void attention_head_backward(AttentionScratch& scratch, int64_t N, int64_t K, float scale) {
  HWY_DYNAMIC_DISPATCH(backward)(scratch, N, K, scale);
}

}  // namespace fovea::kernels::cpu
#endif
