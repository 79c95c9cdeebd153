#include "fovea/kernels/cpu/int8_avx512.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512_gelu.h"
#include "fovea/kernels/cpu/bfloat16_bits.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

constexpr int64_t kLanes = 16, kWidth = 2 * kLanes, kCodes = 4 * kLanes;
constexpr uint16_t kSign = 0x8000;

// The largest of 32 unsigned values.
FOVEA_AVX512 inline uint16_t largest_of(__m512i values) {
  const auto half =
      _mm256_max_epu16(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1));
  const auto quarter =
      _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const auto least = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
  return static_cast<uint16_t>(~_mm_cvtsi128_si32(least));
}

// From the least to the largest value, 0 among them; nothing where one is not finite. Among bits of
// bfloat16 the largest signed number is the largest value, if there is one above 0, and the largest
// unsigned one the least, if there is one below 0; what is not finite is beyond the finite ones.
FOVEA_AVX512 inline std::optional<Int8Range> range_of_row(const uint16_t* x, int64_t depth) {
  auto highs = _mm512_setzero_si512(), lows = _mm512_set1_epi16(static_cast<int16_t>(kSign));
  for (int64_t i = 0; i < depth; i += kWidth) {
    const auto bits = _mm512_maskz_loadu_epi16(first_values(depth - i), x + i);
    highs = _mm512_max_epi16(highs, bits);
    lows = _mm512_max_epu16(lows, bits);
  }
  const auto high = largest_of(highs), low = largest_of(lows);
  constexpr uint16_t kInfinity = 0x7F80;
  if (high >= kInfinity || (low & ~kSign) >= kInfinity) return std::nullopt;
  return Int8Range{float_of_bits(low), float_of_bits(high)};
}

// Codes of 64 values. Outside a given range there may be any: they are held to 255 steps from 0,
// which are beyond it in either direction.
struct CodeWriter {
  bool is_given;
  __m512 factor;
  __m512i zero;
  // Packing goes by quarters of its operands.
  __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);

  FOVEA_AVX512 CodeWriter(const Int8Row& row, bool of_given_range)
      : is_given(of_given_range),
        factor(_mm512_set1_ps(row.scale > 0 ? 1 / row.scale : 0)),
        zero(_mm512_set1_epi16(static_cast<int16_t>(row.zero))) {}

  FOVEA_AVX512_INLINE __m512i steps(__m512i values) const {
    auto exact = _mm512_mul_ps(_mm512_castsi512_ps(values), factor);
    if (is_given) {
      exact = _mm512_min_ps(_mm512_max_ps(exact, _mm512_set1_ps(-255)), _mm512_set1_ps(255));
    }
    return _mm512_cvtps_epi32(exact);
  }
  // Of 32 values, in 16 bits. Of each two of them the second one is widened where it lies.
  FOVEA_AVX512_INLINE __m512i shifted(__m512i values) const {
    const auto evens = steps(_mm512_slli_epi32(values, 16));
    const auto odds = steps(_mm512_and_si512(values, _mm512_set1_epi32(~0xFFFF)));
    return _mm512_add_epi16(_mm512_mask_blend_epi16(kOdds, evens, _mm512_slli_epi32(odds, 16)),
                            zero);
  }
  FOVEA_AVX512_INLINE __m512i of(__m512i first, __m512i second) const {
    return _mm512_permutexvar_epi64(order, _mm512_packus_epi16(shifted(first), shifted(second)));
  }

  static constexpr __mmask32 kOdds = 0xAAAAAAAA;
};

// Codes wait for their row's range: of several rows one after another, and then their codes, the
// processor works on the next row meanwhile.
constexpr int64_t kRowsAtOnce = 8;

FOVEA_AVX512 void write_codes_of(const uint16_t* x, int64_t depth, const Int8Row& row,
                                 bool is_given, uint8_t* codes) {
  if (std::isnan(row.scale)) {
    std::memset(codes, 0, static_cast<size_t>(depth));
    return;
  }
  const CodeWriter writer(row, is_given);
  for (int64_t i = 0; i < depth; i += kCodes) {
    const auto first = _mm512_maskz_loadu_epi16(first_values(depth - i), x + i);
    const auto second = _mm512_maskz_loadu_epi16(first_values(depth - i - kWidth), x + i + kWidth);
    _mm512_storeu_si512(codes + i, writer.of(first, second));
  }
}

// What 16 columns make of a row's sums. No multiplication is fused with an addition (see
// CMakeLists.txt).
struct SixteenColumns {
  __mmask16 mask;
  __m512 scales;
  __m512i sums;
  __m512 bias;

  FOVEA_AVX512 SixteenColumns(const Int8Columns& columns, __mmask16 of_columns)
      : mask(of_columns),
        scales(_mm512_maskz_loadu_ps(mask, columns.scales)),
        sums(_mm512_maskz_loadu_epi32(mask, columns.sums)),
        bias(columns.bias ? _mm512_maskz_loadu_ps(mask, columns.bias) : _mm512_set1_ps(-0.0f)) {}

  FOVEA_AVX512 __m512 of(const Int8Row& row, const int32_t* products) const {
    const auto shift = _mm512_mullo_epi32(_mm512_set1_epi32(row.zero), sums);
    const auto sum =
        _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_maskz_loadu_epi32(mask, products), shift));
    const auto scale = _mm512_mul_ps(_mm512_set1_ps(row.scale), scales);
    return _mm512_add_ps(_mm512_mul_ps(sum, scale), bias);
  }
};

// Of 32 columns: a row fills a cache line before the next one is begun.
FOVEA_AVX512 void finish_columns(const Int8Sums& sums, const Int8Columns& columns,
                                 const Int8Results<uint16_t>& results) {
  const auto mask = first_values(columns.count);
  const SixteenColumns low_end(columns, static_cast<__mmask16>(mask));
  const SixteenColumns high_end(columns.part(kLanes, kLanes),
                                static_cast<__mmask16>(mask >> kLanes));
  for (int64_t r = 0; r < sums.count; ++r) {
    const auto* products = sums.data + r * sums.width;
    auto low = low_end.of(sums.rows[r], products);
    auto high = high_end.of(sums.rows[r], products + kLanes);
    if (results.residual) {
      const auto added =
          _mm512_maskz_loadu_epi16(mask, results.residual + r * results.residual_stride);
      low = _mm512_add_ps(low, widen_half(added, 0));
      high = _mm512_add_ps(high, widen_half(added, 1));
    }
    const auto place = r * results.stride;
    if (results.data != results.gelu) {
      _mm512_mask_storeu_epi16(results.data + place, mask, round_to_bfloat16(low, high));
    }
    if (!results.gelu) continue;
    _mm512_mask_storeu_epi16(results.gelu + place, mask,
                             round_to_bfloat16(gelu_of(low), gelu_of(high)));
  }
}

}  // namespace

FOVEA_AVX512 void quantize_rows_in_avx512(const Int8Values<uint16_t>& x, const Int8Row* given,
                                          const Int8Codes& codes) {
  for (int64_t begin = 0; begin < x.count; begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, x.count);
    for (int64_t r = begin; r < end; ++r) {
      const auto range = range_of_row(x.data + r * x.stride, x.depth);
      codes.rows[r] = !range ? kNoInt8Row : given ? *given : int8_row(*range);
    }
    for (int64_t r = begin; r < end; ++r) {
      write_codes_of(x.data + r * x.stride, x.depth, codes.rows[r], given != nullptr,
                     codes.data + r * codes.stride);
    }
  }
}

FOVEA_AVX512 void finish_rows_in_avx512(const Int8Sums& sums, const Int8Columns& columns,
                                        const Int8Results<uint16_t>& results) {
  for (int64_t c = 0; c < columns.count; c += kWidth) {
    finish_columns({sums.data + c, sums.width, sums.rows, sums.count}, columns.part(c, kWidth),
                   results.part(0, c));
  }
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#else

namespace fovea::kernels::cpu {

void quantize_rows_in_avx512(const Int8Values<uint16_t>&, const Int8Row*, const Int8Codes&) {
  fail("AVX-512 BF16 on a processor that has none");
}
void finish_rows_in_avx512(const Int8Sums&, const Int8Columns&, const Int8Results<uint16_t>&) {
  fail("AVX-512 BF16 on a processor that has none");
}

}  // namespace fovea::kernels::cpu

#endif
