#include "fovea/kernels/cpu/bfloat16_norm_rows.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

constexpr int64_t kValuesAtOnce = 32;

// 32 values of a row.
struct Wide {
  __m512 low, high;
};

FOVEA_AVX512 inline Wide load_wide(const uint16_t* data, __mmask32 mask) {
  const auto values = _mm512_maskz_loadu_epi16(mask, data);
  return {widen_half(values, 0), widen_half(values, 1)};
}

// For sums, of which any order is as good: where all are there every other value is widened where
// it lies, for less than half of the instructions.
FOVEA_AVX512 inline Wide load_in_any_order(const uint16_t* data, __mmask32 mask) {
  if (mask != ~__mmask32{0}) return load_wide(data, mask);
  const auto values = _mm512_loadu_si512(data);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(values, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(values, _mm512_set1_epi32(-1 << 16)))};
}

FOVEA_AVX512 inline Wide load_wide(const float* data, __mmask32 mask) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), data),
          _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), data + 16)};
}

FOVEA_AVX512 inline void store_wide(Wide values, __mmask32 mask, float* to) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), values.low);
  _mm512_mask_storeu_ps(to + 16, static_cast<__mmask16>(mask >> 16), values.high);
}

FOVEA_AVX512 inline void store_wide(Wide values, __mmask32 mask, uint16_t* to) {
  _mm512_mask_storeu_epi16(to, mask, round_to_bfloat16(values.low, values.high));
}

// What is not there stays 0, as it does not of x - mean.
FOVEA_AVX512 inline Wide subtract(Wide values, __m512 x, __mmask32 mask) {
  return {_mm512_maskz_sub_ps(static_cast<__mmask16>(mask), values.low, x),
          _mm512_maskz_sub_ps(static_cast<__mmask16>(mask >> 16), values.high, x)};
}

FOVEA_AVX512 inline Wide multiply(Wide a, Wide b) {
  return {_mm512_mul_ps(a.low, b.low), _mm512_mul_ps(a.high, b.high)};
}

FOVEA_AVX512 inline Wide multiply(Wide a, __m512 b) { return multiply(a, Wide{b, b}); }

FOVEA_AVX512 inline Wide add(Wide a, Wide b) {
  return {_mm512_add_ps(a.low, b.low), _mm512_add_ps(a.high, b.high)};
}

// a b + c.
FOVEA_AVX512 inline Wide multiply_add(Wide a, Wide b, Wide c) {
  return {_mm512_fmadd_ps(a.low, b.low, c.low), _mm512_fmadd_ps(a.high, b.high, c.high)};
}

FOVEA_AVX512 inline float sum_of(Wide x) {
  return _mm512_reduce_add_ps(_mm512_add_ps(x.low, x.high));
}

// body(d, mask) for all values of a row, 32 at a time. That all of them are there is known to the
// compiler, but for the last ones.
template <class Body>
FOVEA_AVX512_INLINE void for_values(int64_t D, const Body& body) {
  int64_t d = 0;
  for (; d + kValuesAtOnce <= D; d += kValuesAtOnce) body(d, ~__mmask32{0});
  if (d < D) body(d, first_values(D - d));
}

FOVEA_AVX512 inline Wide zeros() { return {_mm512_setzero_ps(), _mm512_setzero_ps()}; }

}  // namespace

FOVEA_AVX512 void bfloat16_layer_norm_row(const uint16_t* x, const float* weight, const float* bias,
                                          float eps, int64_t D, uint16_t* y, float* mean,
                                          float* rstd) {
  const auto width = static_cast<float>(D);
  auto sum = zeros();
  for_values(D, [&](int64_t d, __mmask32 mask)
                    FOVEA_AVX512_INLINED { sum = add(sum, load_in_any_order(x + d, mask)); });
  // The second pass corrects the first one's rounding, as in norm_rows.cc.
  const float guess = sum_of(sum) / width;
  auto rest = zeros(), squares = zeros();
  for_values(D, [&](int64_t d, __mmask32 mask) FOVEA_AVX512_INLINED {
    const auto deviation = subtract(load_in_any_order(x + d, mask), _mm512_set1_ps(guess), mask);
    rest = add(rest, deviation);
    squares = multiply_add(deviation, deviation, squares);
  });
  const float correction = sum_of(rest) / width, average = guess + correction;
  const float variance = sum_of(squares) / width - correction * correction;
  // As there: std::max(NaN, 0) is NaN, so that a row with one keeps it.
  const float inverse = 1.0f / std::sqrt(std::max(variance, 0.0f) + eps);
  const auto averages = _mm512_set1_ps(average), inverses = _mm512_set1_ps(inverse);
  for_values(D, [&](int64_t d, __mmask32 mask) FOVEA_AVX512_INLINED {
    auto out = multiply(subtract(load_wide(x + d, mask), averages, mask), inverses);
    if (weight) out = multiply(out, load_wide(weight + d, mask));
    if (bias) out = add(out, load_wide(bias + d, mask));
    store_wide(out, mask, y + d);
  });
  *mean = average;
  *rstd = inverse;
}

FOVEA_AVX512 void bfloat16_layer_norm_row_backward(const uint16_t* dy, const uint16_t* x,
                                                   const float* weight, float mean, float rstd,
                                                   int64_t D, uint16_t* dx, float* dweight,
                                                   float* dbias) {
  const auto means = _mm512_set1_ps(mean), rstds = _mm512_set1_ps(rstd);
  auto sum_g = zeros(), sum_gx = zeros();  // of g = dy * weight and g * x_hat
  for_values(D, [&](int64_t d, __mmask32 mask) FOVEA_AVX512_INLINED {
    const auto given = load_wide(dy + d, mask);
    const auto x_hat = multiply(subtract(load_wide(x + d, mask), means, mask), rstds);
    const auto g = weight ? multiply(given, load_wide(weight + d, mask)) : given;
    sum_g = add(sum_g, g);
    sum_gx = multiply_add(g, x_hat, sum_gx);
    if (dweight) {
      store_wide(multiply_add(given, x_hat, load_wide(dweight + d, mask)), mask, dweight + d);
    }
    if (dbias) store_wide(add(given, load_wide(dbias + d, mask)), mask, dbias + d);
  });
  const auto width = static_cast<float>(D);
  const auto mean_g = _mm512_set1_ps(sum_of(sum_g) / width);
  const auto minus_mean_gx = _mm512_set1_ps(-sum_of(sum_gx) / width);
  for_values(D, [&](int64_t d, __mmask32 mask) FOVEA_AVX512_INLINED {
    const auto given = load_wide(dy + d, mask);
    const auto x_hat = multiply(subtract(load_wide(x + d, mask), means, mask), rstds);
    const auto g = weight ? multiply(given, load_wide(weight + d, mask)) : given;
    const auto rest =
        multiply_add(x_hat, {minus_mean_gx, minus_mean_gx}, subtract(g, mean_g, mask));
    store_wide(multiply(rest, rstds), mask, dx + d);
  });
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#else

namespace fovea::kernels::cpu {
namespace {

[[noreturn]] void refuse_bfloat16_norm() {
  fail("norms of bfloat16 on a processor without AVX-512 BF16; ask kernel_paths() first");
}

}  // namespace

void bfloat16_layer_norm_row(const uint16_t*, const float*, const float*, float, int64_t, uint16_t*,
                             float*, float*) {
  refuse_bfloat16_norm();
}
void bfloat16_layer_norm_row_backward(const uint16_t*, const uint16_t*, const float*, float, float,
                                      int64_t, uint16_t*, float*, float*) {
  refuse_bfloat16_norm();
}

}  // namespace fovea::kernels::cpu

#endif
