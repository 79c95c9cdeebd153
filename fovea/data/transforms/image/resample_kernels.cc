#include "fovea/data/transforms/image/resample_kernels.h"

#include <algorithm>
#include <cstring>

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/data/transforms/image/resample_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::data::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLowBits = 8;
constexpr int32_t kHalf = 1 << (kResizeFractionBits - 1);

inline uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kResizeFractionBits, 0, 255));
}

// Weight of tap k of output i, put together again.
inline int32_t weight_of(const ResizeWeights& weights, int64_t i, int64_t k) {
  const int32_t* pair = weights.packed.data() + (i * weights.pairs + k / 2) * 2;
  const int shift = static_cast<int>(k % 2) * 16;
  const auto high = static_cast<int16_t>(static_cast<uint32_t>(pair[0]) >> shift);
  const auto low = static_cast<int16_t>(static_cast<uint32_t>(pair[1]) >> shift);
  return high * (1 << kLowBits) + low;
}

void columns_any(const uint8_t* in, int64_t channels, const ResizeWeights& weights, uint8_t* out) {
  for (int64_t x = 0; x < weights.count; ++x) {
    for (int64_t c = 0; c < channels; ++c) {
      const uint8_t* pixel = in + weights.starts[x] * channels + c;
      int32_t sum = kHalf;
      for (int64_t k = 0; k < weights.taps; ++k) {
        sum += pixel[k * channels] * weight_of(weights, x, k);
      }
      out[x * channels + c] = to_byte(sum);
    }
  }
}

// The highs and lows of a pair of taps, in every lane.
template <class D16, class D32 = hn::RepartitionToWide<D16>>
HWY_INLINE void load_pair(D16 d16, const int32_t* pair, hn::Vec<D16>& high, hn::Vec<D16>& low) {
  const D32 d32;
  high = hn::BitCast(d16, hn::Set(d32, pair[0]));
  low = hn::BitCast(d16, hn::Set(d32, pair[1]));
}

// 256 * high + low, as bytes before clamping.
template <class D32>
HWY_INLINE hn::Vec<D32> finish_sum(D32, hn::Vec<D32> high, hn::Vec<D32> low) {
  return hn::ShiftRight<kResizeFractionBits>(hn::Add(hn::ShiftLeft<kLowBits>(high), low));
}

#if HWY_TARGET != HWY_SCALAR
// One block of 16 bytes for each of two rows where vectors are long enough, else for one.
using Tag8 = hn::CappedTag<uint8_t, 32>;
using Tag16 = hn::Repartition<int16_t, Tag8>;
using Tag32 = hn::Repartition<int32_t, Tag8>;
using Block8 = hn::FixedTag<uint8_t, 16>;
constexpr int64_t kBlocks = static_cast<int64_t>(hn::MaxLanes(Tag8())) / 16;

// 16 bytes from each row.
template <class D8>
HWY_INLINE hn::Vec<D8> load_blocks(D8 d8, const uint8_t* const* in, int64_t offset) {
  const Block8 block;
  if constexpr (hn::MaxLanes(D8()) == 32) {
    return hn::Combine(d8, hn::LoadU(block, in[1] + offset), hn::LoadU(block, in[0] + offset));
  } else {
    return hn::LoadU(d8, in[0] + offset);
  }
}

template <class D8>
HWY_INLINE void store_blocks(hn::Vec<D8> bytes, D8 d8, uint8_t* const* out, int64_t offset) {
  const Block8 block;
  if constexpr (hn::MaxLanes(D8()) == 32) {
    hn::StoreU(hn::LowerHalf(block, bytes), block, out[0] + offset);
    hn::StoreU(hn::UpperHalf(block, bytes), block, out[1] + offset);
  } else {
    hn::StoreU(bytes, d8, out[0] + offset);
  }
}

// Four 32-bit lanes a block: r, g, b and nothing, of output x. Pairs: how many, known to the
// compiler; 0: read from `weights`.
template <int64_t Pairs>
HWY_INLINE hn::Vec<Tag32> column_sums(const uint8_t* const* in, const ResizeWeights& weights,
                                      int64_t x, hn::Vec<Tag8> spread) {
  const Tag16 d16;
  const Tag32 d32;
  const int64_t pairs = Pairs > 0 ? Pairs : weights.pairs;
  const int32_t* packed = weights.packed.data() + x * pairs * 2;
  const int64_t start = int64_t{weights.starts[x]} * 3;
  auto high_sum = hn::Zero(d32);
  auto low_sum = hn::Set(d32, kHalf);
  auto unused = hn::Zero(d32);  // on x86 all products land in the first sum
#pragma GCC unroll 4
  for (int64_t p = 0; p < pairs; ++p) {
    const auto bytes = load_blocks(Tag8(), in, start + 6 * p);
    const auto taps = hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, spread));
    hn::Vec<Tag16> high, low;
    load_pair(d16, packed + 2 * p, high, low);
    high_sum = hn::ReorderWidenMulAccumulate(d32, taps, high, high_sum, unused);
    low_sum = hn::ReorderWidenMulAccumulate(d32, taps, low, low_sum, unused);
  }
  return finish_sum(d32, high_sum, low_sum);
}

template <int64_t Pairs>
void columns_rgb(const uint8_t* const* in, const ResizeWeights& weights, uint8_t* const* out) {
  const Tag8 d8;
  const Tag16 d16;
  // Two neighbouring pixels r0 g0 b0 r1 g1 b1 as 16-bit r0 r1 g0 g1 b0 b1 0 0.
  alignas(16) static constexpr uint8_t kSpread[16] = {0, 0x80, 3, 0x80, 1,    0x80, 4,    0x80,
                                                      2, 0x80, 5, 0x80, 0x80, 0x80, 0x80, 0x80};
  // Four pixels without the empty fourth byte of each.
  alignas(16) static constexpr uint8_t kDense[16] = {0,  1,  2,  4,  5,    6,    8,    9,
                                                     10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
  const auto spread = hn::LoadDup128(d8, kSpread);
  const auto dense = hn::LoadDup128(d8, kDense);
  for (int64_t x = 0; x < weights.count; x += 4) {
    const auto a = hn::ReorderDemote2To(d16, column_sums<Pairs>(in, weights, x, spread),
                                        column_sums<Pairs>(in, weights, x + 1, spread));
    const auto b = hn::ReorderDemote2To(d16, column_sums<Pairs>(in, weights, x + 2, spread),
                                        column_sums<Pairs>(in, weights, x + 3, spread));
    // Clamped to bytes, b's moved into the odd bytes; then both are put in order by one lookup.
    const auto zero = hn::Zero(d16);
    const auto most = hn::Set(d16, 255);
    const auto low = hn::Min(hn::Max(a, zero), most);
    const auto high = hn::Min(hn::Max(b, zero), most);
    const auto mixed = hn::BitCast(d8, hn::Or(low, hn::ShiftLeft<8>(high)));
    alignas(16) static constexpr uint8_t kOrder[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                       1, 3, 5, 7, 9, 11, 13, 15};
    const auto ordered = hn::TableLookupBytes(mixed, hn::LoadDup128(d8, kOrder));
    store_blocks(hn::TableLookupBytesOr0(ordered, dense), d8, out, x * 3);
  }
}

void columns(const uint8_t* const* in, int64_t rows, int64_t channels, const ResizeWeights& weights,
             uint8_t* const* out) {
  if (channels != 3) {
    for (int64_t r = 0; r < rows; ++r) columns_any(in[r], channels, weights, out[r]);
    return;
  }
  for (int64_t r = 0; r < rows; r += kBlocks) {
    // A single last row stands in for its missing neighbour.
    const int64_t second = std::min(r + 1, rows - 1);
    const uint8_t* const from[2] = {in[r], in[second]};
    uint8_t* const to[2] = {out[r], out[second]};
    switch (weights.pairs) {
      case 1:
        columns_rgb<1>(from, weights, to);
        break;
      case 2:
        columns_rgb<2>(from, weights, to);
        break;
      case 3:
        columns_rgb<3>(from, weights, to);
        break;
      case 4:
        columns_rgb<4>(from, weights, to);
        break;
      default:
        columns_rgb<0>(from, weights, to);
    }
  }
}

// Bytes of two rows, side by side, are widened to 16 bits in four parts, and the sums packed by the
// inverse of that: so nothing has to cross blocks until the end.
HWY_INLINE void rows_vector(const uint8_t* const* in, int64_t pairs, const int32_t* packed,
                            int64_t offset, uint8_t* out) {
  const Tag8 d8;
  const Tag16 d16;
  const Tag32 d32;
  hn::Vec<Tag32> high_sum[4], low_sum[4];
  auto unused = hn::Zero(d32);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    high_sum[i] = hn::Zero(d32);
    low_sum[i] = hn::Set(d32, kHalf);
  }
  for (int64_t p = 0; p < pairs; ++p) {
    const auto a = hn::LoadU(d8, in[2 * p] + offset);
    const auto b = hn::LoadU(d8, in[2 * p + 1] + offset);
    const auto lower = hn::InterleaveLower(d8, a, b);
    const auto upper = hn::InterleaveUpper(d8, a, b);
    const auto zero = hn::Zero(d8);
    const hn::Vec<Tag16> taps[4] = {hn::BitCast(d16, hn::InterleaveLower(d8, lower, zero)),
                                    hn::BitCast(d16, hn::InterleaveUpper(d8, lower, zero)),
                                    hn::BitCast(d16, hn::InterleaveLower(d8, upper, zero)),
                                    hn::BitCast(d16, hn::InterleaveUpper(d8, upper, zero))};
    hn::Vec<Tag16> high, low;
    load_pair(d16, packed + 2 * p, high, low);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      high_sum[i] = hn::ReorderWidenMulAccumulate(d32, taps[i], high, high_sum[i], unused);
      low_sum[i] = hn::ReorderWidenMulAccumulate(d32, taps[i], low, low_sum[i], unused);
    }
  }
  const auto sum = [&](int i) HWY_ATTR { return finish_sum(d32, high_sum[i], low_sum[i]); };
  const auto zero = hn::Zero(d16);
  const auto most = hn::Set(d16, 255);
  const auto lower = hn::Min(hn::Max(hn::ReorderDemote2To(d16, sum(0), sum(1)), zero), most);
  const auto upper = hn::Min(hn::Max(hn::ReorderDemote2To(d16, sum(2), sum(3)), zero), most);
  const auto mixed = hn::BitCast(d8, hn::Or(lower, hn::ShiftLeft<8>(upper)));
  alignas(16) static constexpr uint8_t kOrder[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                     1, 3, 5, 7, 9, 11, 13, 15};
  hn::StoreU(hn::TableLookupBytes(mixed, hn::LoadDup128(d8, kOrder)), d8, out + offset);
}

void rows(const uint8_t* const* in, const ResizeWeights& weights, int64_t i, int64_t row_bytes,
          uint8_t* out) {
  const int32_t* packed = weights.packed.data() + i * weights.pairs * 2;
  const auto step = static_cast<int64_t>(hn::Lanes(Tag8()));
  for (int64_t offset = 0; offset < row_bytes; offset += step) {
    rows_vector(in, weights.pairs, packed, offset, out);
  }
}
#else
void columns(const uint8_t* const* in, int64_t rows, int64_t channels, const ResizeWeights& weights,
             uint8_t* const* out) {
  for (int64_t r = 0; r < rows; ++r) columns_any(in[r], channels, weights, out[r]);
}

void rows(const uint8_t* const* in, const ResizeWeights& weights, int64_t i, int64_t row_bytes,
          uint8_t* out) {
  for (int64_t x = 0; x < row_bytes; ++x) {
    int32_t sum = kHalf;
    for (int64_t k = 0; k < weights.taps; ++k) sum += in[k][x] * weight_of(weights, i, k);
    out[x] = to_byte(sum);
  }
}
#endif

}  // namespace
}  // namespace fovea::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::data {

HWY_EXPORT(columns);
HWY_EXPORT(rows);

void resize_columns(const uint8_t* const* in, int64_t rows, int64_t channels,
                    const ResizeWeights& weights, uint8_t* const* out) {
  HWY_DYNAMIC_DISPATCH(columns)(in, rows, channels, weights, out);
}

void resize_rows(const uint8_t* const* in, const ResizeWeights& weights, int64_t i,
                 int64_t row_bytes, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(rows)(in, weights, i, row_bytes, out);
}

}  // namespace fovea::data
#endif
