#include "fovea/kernels/cpu/avx512.h"
#include "fovea/kernels/cpu/panels.h"

#ifdef __x86_64__

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

// 16 lines that lie row after row, 32 values of each: as they lie.
FOVEA_AVX512 inline void load_lines(const uint16_t* data, int64_t stride, int64_t lines,
                                    int64_t depth, __m512i (&units)[16]) {
  const auto mask = first_values(depth);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    units[i] =
        i < lines ? _mm512_maskz_loadu_epi16(mask, data + i * stride) : _mm512_setzero_si512();
  }
}

// Row number `row`, widened; zeros from row `rows` on.
FOVEA_AVX512 inline __m512i load_words(const uint16_t* data, int64_t stride, int64_t row,
                                       int64_t rows, __mmask16 mask) {
  if (row >= rows) return _mm512_setzero_si512();
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, data + row * stride));
}

// 16 lines that lie column beside column, 32 values of each: rows of pairs.
FOVEA_AVX512 inline void load_pairs(const uint16_t* data, int64_t stride, int64_t lines,
                                    int64_t depth, __m512i (&units)[16]) {
  const auto mask = static_cast<__mmask16>(first_values(lines));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const auto low = load_words(data, stride, 2 * i, depth, mask);
    const auto high = load_words(data, stride, 2 * i + 1, depth, mask);
    units[i] = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
  }
}

// Lines that lie row after row, as they lie. Those that are not there are left as they are: the
// last few rows of a product are packed for each thread that multiplies them.
FOVEA_AVX512 inline void copy_lines(const uint16_t* data, int64_t stride, int64_t ahead,
                                    int64_t lines, int64_t depth, uint16_t* to) {
  for (int64_t done = 0; done < depth; done += kBlockSide, to += kStepValues) {
    const auto mask = first_values(depth - done);
    for (int64_t line = 0; line < lines; ++line) {
      const auto* from = data + line * stride + done;
      if (ahead != 0 && lines == kBlockSide) prefetch_ahead(from, ahead);
      _mm512_store_si512(to + line * kBlockSide, _mm512_maskz_loadu_epi16(mask, from));
    }
  }
}

// data: the first line's first value. lies_in_rows: whether a line is a row of what is in memory.
FOVEA_AVX512 inline void pack_panel(const uint16_t* data, int64_t stride, int64_t ahead,
                                    bool lies_in_rows, bool is_transposed, int64_t lines,
                                    int64_t depth, uint16_t* to) {
  for (int64_t done = 0; done < depth; done += kBlockSide) {
    if (ahead != 0) {
      const auto* from = lies_in_rows ? data + done : data + done * stride;
      for (int64_t row = 0; row < kBlockSide; ++row) prefetch_ahead(from, row * stride + ahead);
    }
    for (int64_t line = 0; line < kBlockSide; line += kTileRows, to += kTileValues) {
      __m512i units[16];
      if (lies_in_rows) {
        load_lines(data + line * stride + done, stride, lines - line, depth - done, units);
      } else {
        load_pairs(data + done * stride + line, stride, lines - line, depth - done, units);
      }
      if (is_transposed) transpose(units);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_store_si512(to + 32 * i, units[i]);
    }
  }
}

}  // namespace

FOVEA_AVX512 void pack_first(const Factor& factor, int64_t begin, int64_t count, int64_t first,
                             int64_t depth, uint16_t* to) {
  const int64_t row = factor.is_transposed ? first : begin, column = first + begin - row;
  const auto* data = factor.data + row * factor.stride + column;
  if (!factor.is_transposed) return copy_lines(data, factor.stride, factor.ahead, count, depth, to);
  pack_panel(data, factor.stride, factor.ahead, /*lies_in_rows=*/false, /*is_transposed=*/true,
             count, depth, to);
}

FOVEA_AVX512 void pack_second(const Factor& factor, int64_t begin, int64_t count, int64_t first,
                              int64_t depth, uint16_t* to) {
  const int64_t row = factor.is_transposed ? begin : first, column = first + begin - row;
  pack_panel(factor.data + row * factor.stride + column, factor.stride, factor.ahead,
             factor.is_transposed, factor.is_transposed, count, depth, to);
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#else

namespace fovea::kernels::cpu {

void pack_first(const Factor&, int64_t, int64_t, int64_t, int64_t, uint16_t*) { refuse_panels(); }
void pack_second(const Factor&, int64_t, int64_t, int64_t, int64_t, uint16_t*) { refuse_panels(); }

}  // namespace fovea::kernels::cpu

#endif
