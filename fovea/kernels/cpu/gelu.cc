#include "fovea/kernels/cpu/gelu.h"

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512_gelu.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {

FOVEA_AVX512 void gelu(const uint16_t* x, int64_t count, uint16_t* y) {
  const bool is_streamed = goes_past_caches(y, count);
  for (int64_t i = 0; i < count; i += 32) {
    const auto mask = first_values(count - i);
    store(gelu_of(_mm512_maskz_loadu_epi16(mask, x + i)), mask, is_streamed, y + i);
  }
  _mm_sfence();
}

namespace {

// y: null where it is not wanted.
FOVEA_AVX512 inline void differentiate(const uint16_t* dy, const uint16_t* x, int64_t count,
                                       uint16_t* dx, uint16_t* y) {
  const bool is_streamed = goes_past_caches(dx, count);
  const bool is_y_streamed = y && goes_past_caches(y, count);
  for (int64_t i = 0; i < count; i += 32) {
    const auto mask = first_values(count - i);
    const auto values = _mm512_maskz_loadu_epi16(mask, x + i);
    const auto given = _mm512_maskz_loadu_epi16(mask, dy + i);
    const auto low = widen_half(values, 0), high = widen_half(values, 1);
    const auto low_at = gelu_pieces(low), high_at = gelu_pieces(high);
    const auto dlow = _mm512_mul_ps(widen_half(given, 0), gelu_derivative_of(low, low_at));
    const auto dhigh = _mm512_mul_ps(widen_half(given, 1), gelu_derivative_of(high, high_at));
    store(round_to_bfloat16(dlow, dhigh), mask, is_streamed, dx + i);
    if (!y) continue;
    store(round_to_bfloat16(gelu_of(low, low_at), gelu_of(high, high_at)), mask, is_y_streamed,
          y + i);
  }
  _mm_sfence();
}

}  // namespace

FOVEA_AVX512 void gelu_backward(const uint16_t* dy, const uint16_t* x, int64_t count,
                                uint16_t* dx) {
  differentiate(dy, x, count, dx, nullptr);
}

FOVEA_AVX512 void gelu_again(const uint16_t* dy, const uint16_t* x, int64_t count, uint16_t* dx,
                             uint16_t* y) {
  differentiate(dy, x, count, dx, y);
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#else

namespace fovea::kernels::cpu {
namespace {

[[noreturn]] void refuse_bfloat16_gelu() {
  fail("GELU of bfloat16 on a processor without AVX-512 BF16; ask kernel_paths() first");
}

}  // namespace

void gelu(const uint16_t*, int64_t, uint16_t*) { refuse_bfloat16_gelu(); }
void gelu_backward(const uint16_t*, const uint16_t*, int64_t, uint16_t*) { refuse_bfloat16_gelu(); }
void gelu_again(const uint16_t*, const uint16_t*, int64_t, uint16_t*, uint16_t*) {
  refuse_bfloat16_gelu();
}

}  // namespace fovea::kernels::cpu

#endif
