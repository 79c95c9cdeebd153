#include "fovea/kernels/cpu/attention_head.h"

#include <algorithm>
#include <bit>
#include <utility>

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/kernels/cpu/attention_head.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// N tokens, K head_dim, Np and Kp the same padded to whole vectors.
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, 16>;

// A matrix that is read element by element: a(r, c) = data[r * row + c * column].
struct Strided {
  const float* data;
  int64_t row;
  int64_t column;
};

// A block of c = a b: Rows rows and Vectors vectors of columns, summed in registers. depth: inner
// dim; b: [depth, columns], c: [Rows, columns].
template <int Rows, int Vectors>
HWY_INLINE void multiply_block(Strided a, const float* b, int64_t depth, int64_t columns,
                               float* c) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Tag> sum[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t i = 0; i < depth; ++i) {
    hn::Vec<Tag> row[Vectors];
    for (int v = 0; v < Vectors; ++v) row[v] = hn::LoadU(d, b + i * columns + v * lanes);
    for (int r = 0; r < Rows; ++r) {
      const auto factor = hn::Set(d, a.data[r * a.row + i * a.column]);
      for (int v = 0; v < Vectors; ++v) sum[r][v] = hn::MulAdd(factor, row[v], sum[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) hn::StoreU(sum[r][v], d, c + r * columns + v * lanes);
  }
}

template <int Rows>
HWY_INLINE void multiply_rows(Strided a, const float* b, int64_t depth, int64_t columns, float* c) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  int64_t j = 0;
  for (; j + 2 * lanes <= columns; j += 2 * lanes) {
    multiply_block<Rows, 2>(a, b + j, depth, columns, c + j);
  }
  for (; j < columns; j += lanes) multiply_block<Rows, 1>(a, b + j, depth, columns, c + j);
}

// c = a b. a: [rows, depth] strided, b: [depth, columns], c: [rows, columns]; columns in whole
// vectors.
HWY_INLINE void multiply(Strided a, const float* b, int64_t rows, int64_t depth, int64_t columns,
                         float* c) {
  constexpr int kRows = 6;  // 12 sums: what 16 registers hold beside their operands
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) {
    multiply_rows<kRows>({a.data + i * a.row, a.row, a.column}, b, depth, columns, c + i * columns);
  }
  for (; i < rows; ++i) {
    multiply_rows<1>({a.data + i * a.row, a.row, a.column}, b, depth, columns, c + i * columns);
  }
}

// to: [columns, to_row] = from^T, from: [rows, columns].
HWY_INLINE void transpose(const float* from, int64_t rows, int64_t columns, int64_t to_row,
                          float* to) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * to_row + r] = from[r * columns + c];
  }
}

// e^x for x <= 0: the integer part of x / ln 2 goes into the exponent, the rest through a Taylor
// polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2]. Relative error below 2e-7; 0 below -87.
HWY_INLINE float exp_nonpositive(float x) {
  const float clamped = std::max(x, -87.0f);
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float n = (clamped * 1.44269504f + kRounder) - kRounder;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float sum = 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = (sum * r + 1.0f) * r + 1.0f;
  const auto power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : sum * power;
}

// Scores to probabilities, row by row; padding becomes 0. p: [N, Np].
HWY_INLINE void softmax_rows(float* p, int64_t N, int64_t Np, float scale) {
  for (int64_t i = 0; i < N; ++i) {
    float* row = p + i * Np;
    float largest = row[0];
#pragma omp simd reduction(max : largest)
    for (int64_t j = 0; j < N; ++j) largest = std::max(largest, row[j]);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < N; ++j) {
      row[j] = exp_nonpositive((row[j] - largest) * scale);
      sum += row[j];
    }
    const float inverse = 1.0f / sum;
    for (int64_t j = 0; j < N; ++j) row[j] *= inverse;
    for (int64_t j = N; j < Np; ++j) row[j] = 0;
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
  for (int64_t i = 0; i < N; ++i) {                  // dS = P (dP - rowsum(P dP)) scale
    const float* p = s.p + i * Np;
    float* dp = s.dp + i * Np;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < N; ++j) sum += p[j] * dp[j];
    for (int64_t j = 0; j < Np; ++j) dp[j] = p[j] * (dp[j] - sum) * scale;
  }
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
