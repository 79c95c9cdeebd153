#include "fovea/kernels/cpu/bfloat16_attention_head.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fovea/kernels/bfloat16.h"

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/kernels/cpu/bfloat16_attention_head.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "fovea/kernels/cpu/exp.inc"

// Note [Products of pairs]
// The hardware multiplies pairs of bfloat16, (a0, a1) with (b0, b1), and adds both products to a
// float32. The first factor is read as it lies, row after row; of the second one [depth, columns]
// the values of two rows lie side by side: [depth / 2, columns] pairs of 32 bits. For b = v that is
// v's rows by twos ("row pairs"); for b = k^T it is k transposed in units of two values ("column
// pairs"). Backward works on the transposed scores, keys by queries, because they are the first
// factor of dV and dK; so each of its products finds its factors without transposing scores.
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Bits = hn::RebindToUnsigned<Tag>;
using Half = hn::Rebind<uint16_t, Tag>;

// Rounded to the nearest even, in the lower half of each lane.
HWY_INLINE hn::Vec<Bits> round_to_bfloat16(hn::Vec<Tag> x) {
  const Bits d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  return hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7FFF)), odd));
}

HWY_INLINE void store_bfloat16(hn::Vec<Tag> x, uint16_t* to) {
  const hn::RebindToSigned<Tag> signed_lanes;
  hn::StoreU(hn::DemoteTo(Half(), hn::BitCast(signed_lanes, round_to_bfloat16(x))), Half(), to);
}

// Calls whole(i) for each whole vector of `count` lanes, then rest(i) for each lane after those.
template <class Whole, class Rest>
HWY_INLINE void for_lanes(int64_t count, const Whole& whole, const Rest& rest) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) whole(i);
  for (; i < count; ++i) rest(i);
}

// to: [Np / 2, K] pairs of rows; zeros where there is no row.
HWY_INLINE void pair_rows(InRows from, int64_t N, int64_t K, int64_t Np, uint32_t* to) {
  const Bits d;
  for (int64_t n = 0; n < Np; n += 2, to += K) {
    const uint16_t *first = from.data + n * from.stride, *second = first + from.stride;
    if (n >= N) {
      std::fill_n(to, K, 0);
    } else if (n + 1 == N) {
      for (int64_t k = 0; k < K; ++k) to[k] = first[k];
    } else {
      for_lanes(
          K,
          [&](int64_t k) {
            const auto low = hn::PromoteTo(d, hn::LoadU(Half(), first + k));
            const auto high = hn::PromoteTo(d, hn::LoadU(Half(), second + k));
            hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), d, to + k);
          },
          [&](int64_t k) { to[k] = first[k] | uint32_t{second[k]} << 16; });
    }
  }
}

// to: [K / 2, Np] pairs of columns, transposed; zeros beyond N.
HWY_INLINE void pair_columns(InRows from, int64_t N, int64_t K, int64_t Np, uint32_t* to) {
  constexpr int64_t kTile = 16;
  for (int64_t n0 = 0; n0 < Np; n0 += kTile) {
    const int64_t rows = std::clamp<int64_t>(N - n0, 0, kTile);
    const uint16_t* tile = from.data + n0 * from.stride;
    for (int64_t k = 0; k < K / 2; ++k) {
      uint32_t* row = to + k * Np + n0;
      for (int64_t n = 0; n < rows; ++n) {
        std::memcpy(row + n, tile + n * from.stride + 2 * k, sizeof(uint32_t));
      }
      std::fill(row + rows, row + kTile, 0);
    }
  }
}

// Pairs of columns [K / 2, Np] as the transposed matrix: [K, Np].
HWY_INLINE void unpair_columns(const uint32_t* from, int64_t K, int64_t Np, uint16_t* to) {
  const Bits d;
  const hn::RebindToSigned<Tag> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < K; k += 2, from += Np, to += 2 * Np) {
    for (int64_t n = 0; n < Np; n += lanes) {
      const auto pairs = hn::LoadU(d, from + n);
      const auto low = hn::And(pairs, hn::Set(d, 0xFFFF)), high = hn::ShiftRight<16>(pairs);
      hn::StoreU(hn::DemoteTo(Half(), hn::BitCast(di, low)), Half(), to + n);
      hn::StoreU(hn::DemoteTo(Half(), hn::BitCast(di, high)), Half(), to + Np + n);
    }
  }
}

// from: [N, K] float -> bfloat16 rows, each times its factor (null: 1).
HWY_INLINE void store_rows(const float* from, int64_t N, int64_t K, const float* factors,
                           OutRows to) {
  const Tag d;
  for (int64_t n = 0; n < N; ++n, from += K) {
    const float factor = factors ? factors[n] : 1.0f;
    uint16_t* row = to.data + n * to.stride;
    const auto store_vector = [&](int64_t k) {
      store_bfloat16(hn::Mul(hn::LoadU(d, from + k), hn::Set(d, factor)), row + k);
    };
    const auto store_one = [&](int64_t k) {
      const auto bits = std::bit_cast<uint32_t>(from[k] * factor);
      row[k] = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
    };
    for_lanes(K, store_vector, store_one);
  }
}

// from: [K, Np] float -> its transposed as bfloat16 rows [N, K]. pairs: [K / 2, Np] is working
// memory.
HWY_INLINE void store_transposed(const float* from, int64_t N, int64_t K, int64_t Np,
                                 uint32_t* pairs, OutRows to) {
  const Tag d;
  const Bits db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < K / 2; ++k, from += 2 * Np) {
    for (int64_t n = 0; n < Np; n += lanes) {
      const auto low = round_to_bfloat16(hn::LoadU(d, from + n));
      const auto high = round_to_bfloat16(hn::LoadU(d, from + Np + n));
      hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), db, pairs + k * Np + n);
    }
  }
  constexpr int64_t kTile = 16;
  for (int64_t n0 = 0; n0 < N; n0 += kTile) {
    for (int64_t n = n0; n < std::min(N, n0 + kTile); ++n) {
      uint16_t* row = to.data + n * to.stride;
      for (int64_t k = 0; k < K / 2; ++k) {
        std::memcpy(row + 2 * k, pairs + k * Np + n, sizeof(uint32_t));
      }
    }
  }
}

// Scores to probabilities that are not divided by their sum yet: that is `sums`' to do, inverted.
// s.scores: [N, Np] -> s.probabilities: [N, Np] with zeros in the padding.
HWY_INLINE void exponentiate_rows(Bfloat16AttentionScratch& s, int64_t N, float scale,
                                  float* inverse_sums, float* log_sums) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t Np = s.padded;
  const auto factor = hn::Set(d, scale);
  for (int64_t n = 0; n < N; ++n) {
    float* row = s.scores + n * Np;
    uint16_t* to = s.probabilities + n * Np;
    std::fill(row + N, row + Np, std::numeric_limits<float>::lowest());
    auto largest = hn::Set(d, std::numeric_limits<float>::lowest());
    for (int64_t m = 0; m < Np; m += lanes) largest = hn::Max(largest, hn::LoadU(d, row + m));
    largest = hn::MaxOfLanes(d, largest);
    auto sum = hn::Zero(d);
    for (int64_t m = 0; m < Np; m += lanes) {
      const auto e = exp_nonpositive(hn::Mul(hn::Sub(hn::LoadU(d, row + m), largest), factor));
      sum = hn::Add(sum, e);
      store_bfloat16(e, to + m);
    }
    const float total = hn::GetLane(hn::SumOfLanes(d, sum));
    inverse_sums[n] = 1.0f / total;
    log_sums[n] = hn::GetLane(largest) * scale + std::log(total);
  }
}

// Transposed scores to transposed probabilities, s.scores: [N, Np] in place and rounded in
// s.probabilities, and s.row_sums: [Np] = sum over keys of P dP. s.dscores: dP.
HWY_INLINE void exponentiate_columns(Bfloat16AttentionScratch& s, int64_t N, float scale) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t Np = s.padded;
  const auto factor = hn::Set(d, scale);
  std::fill_n(s.row_sums, Np, 0.0f);
  for (int64_t m = 0; m < N; ++m) {
    float *row = s.scores + m * Np, *drow = s.dscores + m * Np;
    uint16_t* to = s.probabilities + m * Np;
    for (int64_t n = 0; n < Np; n += lanes) {
      const auto p =
          exp_nonpositive(hn::MulSub(hn::LoadU(d, row + n), factor, hn::LoadU(d, s.log_sums + n)));
      hn::StoreU(p, d, row + n);
      store_bfloat16(p, to + n);
      const auto sum = hn::MulAdd(p, hn::LoadU(d, drow + n), hn::LoadU(d, s.row_sums + n));
      hn::StoreU(sum, d, s.row_sums + n);
    }
  }
}

// dS = P (dP - row sums) scale, all transposed: s.dscores_rows: [N, Np], and by pairs of rows.
HWY_INLINE void score_gradients(Bfloat16AttentionScratch& s, int64_t N, float scale) {
  const Tag d;
  const Bits db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const hn::RebindToSigned<Tag> di;
  const int64_t Np = s.padded;
  const auto factor = hn::Set(d, scale);
  const auto gradient = [&](int64_t m, int64_t n) {
    const auto p = hn::Mul(hn::LoadU(d, s.scores + m * Np + n), factor);
    const auto rest = hn::Sub(hn::LoadU(d, s.dscores + m * Np + n), hn::LoadU(d, s.row_sums + n));
    return round_to_bfloat16(hn::Mul(p, rest));
  };
  for (int64_t m = 0; m < Np; m += 2) {
    for (int64_t n = 0; n < Np; n += lanes) {
      auto low = hn::Zero(db), high = hn::Zero(db);
      if (m < N) {
        low = gradient(m, n);
        hn::StoreU(hn::DemoteTo(Half(), hn::BitCast(di, low)), Half(), s.dscores_rows + m * Np + n);
      }
      if (m + 1 < N) {
        high = gradient(m + 1, n);
        hn::StoreU(hn::DemoteTo(Half(), hn::BitCast(di, high)), Half(),
                   s.dscores_rows + (m + 1) * Np + n);
      }
      hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), db, s.dscores_pairs + m / 2 * Np + n);
    }
  }
}

// c = a b, c: [rows, columns] float; see Note [Products of pairs].
HWY_INLINE void multiply_pairs(InRows a, const uint32_t* b, int64_t rows, int64_t columns,
                               int64_t depth, float* c) {
  at::native::cpublas::brgemm(rows, columns, depth, a.stride, columns, columns, /*add_C=*/false,
                              reinterpret_cast<const at::BFloat16*>(a.data),
                              reinterpret_cast<const at::BFloat16*>(b), c, /*is_vnni=*/true);
}

void head_forward(Bfloat16AttentionScratch& s, const QkvRows& qkv, int64_t N, int64_t K,
                  float scale, OutRows out, float* log_sums) {
  const int64_t Np = s.padded;
  pair_columns(qkv.k, N, K, Np, s.column_pairs);
  multiply_pairs(qkv.q, s.column_pairs, N, Np, K, s.scores);
  exponentiate_rows(s, N, scale, s.row_sums, log_sums);
  pair_rows(qkv.v, N, K, Np, s.row_pairs);
  multiply_pairs({s.probabilities, Np}, s.row_pairs, N, K, Np, s.rows);
  store_rows(s.rows, N, K, s.row_sums, out);
}

void head_backward(Bfloat16AttentionScratch& s, const QkvRows& qkv, InRows dout,
                   const float* log_sums, int64_t N, int64_t K, float scale,
                   const QkvGradientRows& gradients) {
  const int64_t Np = s.padded;
  std::copy_n(log_sums, N, s.log_sums);
  // Queries that are not there have probability 0 everywhere.
  std::fill(s.log_sums + N, s.log_sums + Np, std::numeric_limits<float>::max());
  pair_columns(qkv.q, N, K, Np, s.column_pairs);
  multiply_pairs(qkv.k, s.column_pairs, N, Np, K, s.scores);  // S^T = K Q^T
  pair_columns(dout, N, K, Np, s.column_pairs);
  multiply_pairs(qkv.v, s.column_pairs, N, Np, K, s.dscores);  // dP^T = V dO^T
  exponentiate_columns(s, N, scale);
  score_gradients(s, N, scale);
  pair_rows(dout, N, K, Np, s.row_pairs);
  multiply_pairs({s.probabilities, Np}, s.row_pairs, N, K, Np, s.rows);  // dV = P^T dO
  store_rows(s.rows, N, K, nullptr, gradients.v);
  pair_rows(qkv.q, N, K, Np, s.row_pairs);
  multiply_pairs({s.dscores_rows, Np}, s.row_pairs, N, K, Np, s.rows);  // dK = dS^T Q
  store_rows(s.rows, N, K, nullptr, gradients.k);
  pair_columns(qkv.k, N, K, Np, s.column_pairs);
  unpair_columns(s.column_pairs, K, Np, s.keys_transposed);
  multiply_pairs({s.keys_transposed, Np}, s.dscores_pairs, K, Np, Np, s.rows);  // dQ^T = K^T dS^T
  store_transposed(s.rows, N, K, Np, s.column_pairs, gradients.q);
}

}  // namespace
}  // namespace fovea::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels::cpu {

HWY_EXPORT(head_forward);
HWY_EXPORT(head_backward);

namespace {

// A product that libtorch may refuse: without oneDNN's kernels, or where they are switched off.
bool multiplies_pairs() {
  if (!has_bfloat16_products(c10::kCPU)) return false;
  constexpr int64_t kSide = 32;
  std::array<at::BFloat16, kSide * kSide> a, b;
  std::array<float, kSide * kSide> c{};
  a.fill(at::BFloat16(2.0f));
  b.fill(at::BFloat16(3.0f));
  try {
    at::native::cpublas::brgemm(kSide, kSide, kSide, kSide, kSide, kSide, /*add_C=*/false, a.data(),
                                b.data(), c.data(), /*is_vnni=*/true);
    release_bfloat16_attention();
  } catch (const std::exception&) {
    return false;
  }
  return std::all_of(c.begin(), c.end(), [](float value) { return value == 6.0f * kSide; });
}

}  // namespace

bool has_bfloat16_attention() {
  static const bool has = multiplies_pairs();
  return has;
}

void Bfloat16AttentionScratch::resize(int64_t N, int64_t K) {
  if (N == tokens_ && K == width_) return;
  constexpr int64_t kDepth = 32;  // of one step of a product: padding to it leaves no rest
  const int64_t Np = (N + kDepth - 1) / kDepth * kDepth, square = Np * Np, thin = Np * K;
  // Everything is laid out in units of 4 bytes and starts at a cache line.
  const auto lines = [](int64_t words) { return (words + 15) / 16 * 16; };
  const int64_t words =
      2 * lines(square) + 3 * lines(square / 2) + 3 * lines(thin / 2) + lines(thin) + 2 * lines(Np);
  auto* next = memory_.reserve(words);
  std::fill_n(next, words, 0.0f);
  tokens_ = N;
  width_ = K;
  padded = Np;
  const auto take = [&](int64_t count) {
    auto* taken = next;
    next += lines(count);
    return taken;
  };
  scores = take(square);
  dscores = take(square);
  probabilities = reinterpret_cast<uint16_t*>(take(square / 2));
  dscores_rows = reinterpret_cast<uint16_t*>(take(square / 2));
  dscores_pairs = reinterpret_cast<uint32_t*>(take(square / 2));
  column_pairs = reinterpret_cast<uint32_t*>(take(thin / 2));
  row_pairs = reinterpret_cast<uint32_t*>(take(thin / 2));
  keys_transposed = reinterpret_cast<uint16_t*>(take(thin / 2));
  rows = take(thin);
  log_sums = take(Np);
  row_sums = take(Np);
}

void bfloat16_attention_forward(Bfloat16AttentionScratch& scratch, const QkvRows& qkv, int64_t N,
                                int64_t K, float scale, OutRows out, float* log_sums) {
  scratch.resize(N, K);
  HWY_DYNAMIC_DISPATCH(head_forward)(scratch, qkv, N, K, scale, out, log_sums);
}

void bfloat16_attention_backward(Bfloat16AttentionScratch& scratch, const QkvRows& qkv, InRows dout,
                                 const float* log_sums, int64_t N, int64_t K, float scale,
                                 const QkvGradientRows& gradients) {
  scratch.resize(N, K);
  HWY_DYNAMIC_DISPATCH(head_backward)(scratch, qkv, dout, log_sums, N, K, scale, gradients);
}

void release_bfloat16_attention() { at::native::cpublas::brgemm_release(/*is_vnni=*/true); }

}  // namespace fovea::kernels::cpu
#endif
