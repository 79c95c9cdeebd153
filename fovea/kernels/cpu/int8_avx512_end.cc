#include "fovea/kernels/cpu/int8_avx512_end.h"

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512_gelu.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

constexpr int64_t kLanes = 16, kWidth = 2 * kLanes;

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
  const SixteenColumns high_end(columns.part(columns.count > kLanes ? kLanes : 0, kLanes),
                                static_cast<__mmask16>(mask >> kLanes));
  const bool has_high = columns.count > kLanes;
  for (int64_t r = 0; r < sums.count; ++r) {
    const auto* products = sums.data + r * sums.width;
    auto low = low_end.of(sums.rows[r], products);
    auto high = high_end.of(sums.rows[r], products + (has_high ? kLanes : 0));
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
    _mm512_mask_storeu_epi16(
        results.gelu + place, mask,
        round_to_bfloat16(gelu_of(low, gelu_tail(low)), gelu_of(high, gelu_tail(high))));
  }
}

}  // namespace

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

void finish_rows_in_avx512(const Int8Sums&, const Int8Columns&, const Int8Results<uint16_t>&) {
  fail("AVX-512 BF16 on a processor that has none");
}

}  // namespace fovea::kernels::cpu

#endif
