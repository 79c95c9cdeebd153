#include "fovea/kernels/cpu/amx.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512.h"

#ifdef __x86_64__

#include <sys/syscall.h>
#include <unistd.h>

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

constexpr int kTileRows = 16, kTileRowBytes = 64;
constexpr int64_t kTileValues = kStepValues / 2;

// The operand of LDTILECFG (Intel's manual of instructions).
struct alignas(64) TileConfig {
  uint8_t palette, start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
// All eight registers whole. Not a local of the function that uses it: the compiler believes that
// the instruction reads no more than the first bytes, and leaves out writing the rest.
constexpr TileConfig kWholeTiles = {
    .palette = 1,
    .start_row = 0,
    .reserved = {},
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

// Linux saves the tile registers of a process only after it has asked for them.
bool ask_for_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // asm/prctl.h of Linux 5.16
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// 16 x 16 units of 32 bits.
FOVEA_AMX inline void transpose(__m512i (&rows)[16]) {
  __m512i other[16];
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
  }
  constexpr int kEven = 0x88, kOdd = 0xDD;  // of the quarters of both operands
  for (int half = 0; half < 16; half += 8) {
    for (int i = half; i < half + 4; ++i) {
      other[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], kEven);
      other[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], kOdd);
    }
  }
  for (int i = 0; i < 8; ++i) {
    rows[i] = _mm512_shuffle_i32x4(other[i], other[i + 8], kEven);
    rows[i + 8] = _mm512_shuffle_i32x4(other[i], other[i + 8], kOdd);
  }
}

// 16 lines that lie row after row, 32 values of each: as they lie.
FOVEA_AMX inline void load_lines(const uint16_t* data, int64_t stride, int64_t lines, int64_t depth,
                                 __m512i (&units)[16]) {
  const auto mask = first_values(depth);
  for (int i = 0; i < 16; ++i) {
    units[i] =
        i < lines ? _mm512_maskz_loadu_epi16(mask, data + i * stride) : _mm512_setzero_si512();
  }
}

// Row number `row`, widened; zeros from row `rows` on.
FOVEA_AMX inline __m512i load_words(const uint16_t* data, int64_t stride, int64_t row, int64_t rows,
                                    __mmask16 mask) {
  if (row >= rows) return _mm512_setzero_si512();
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, data + row * stride));
}

// 16 lines that lie column beside column, 32 values of each: rows of pairs.
FOVEA_AMX inline void load_pairs(const uint16_t* data, int64_t stride, int64_t lines, int64_t depth,
                                 __m512i (&units)[16]) {
  const auto mask = static_cast<__mmask16>(first_values(lines));
  for (int i = 0; i < 16; ++i) {
    const auto low = load_words(data, stride, 2 * i, depth, mask);
    const auto high = load_words(data, stride, 2 * i + 1, depth, mask);
    units[i] = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
  }
}

// data: the first line's first value. lies_in_rows: whether a line is a row of what is in memory.
FOVEA_AMX inline void pack_panel(const uint16_t* data, int64_t stride, bool lies_in_rows,
                                 bool is_transposed, int64_t lines, int64_t depth, uint16_t* to) {
  for (int64_t done = 0; done < depth; done += kBlockSide) {
    for (int64_t line = 0; line < kBlockSide; line += kTileRows, to += kTileValues) {
      __m512i units[16];
      if (lies_in_rows) {
        load_lines(data + line * stride + done, stride, lines - line, depth - done, units);
      } else {
        load_pairs(data + done * stride + line, stride, lines - line, depth - done, units);
      }
      if (is_transposed) transpose(units);
      for (int i = 0; i < 16; ++i) _mm512_store_si512(to + 32 * i, units[i]);
    }
  }
}

// Not in the constructor itself: gcc does not take the instruction set over to one.
FOVEA_AMX void configure_tiles() { _tile_loadconfig(&kWholeTiles); }

FOVEA_AMX void release_tiles() {
  _mm_sfence();  // what was streamed is there before anything that follows
  _tile_release();
}

}  // namespace

bool has_amx() {
  static const bool has = __builtin_cpu_supports("amx-bf16") != 0 &&
                          __builtin_cpu_supports("amx-tile") != 0 && has_avx512_bfloat16() &&
                          ask_for_tiles();
  return has;
}

TileScope::TileScope() { configure_tiles(); }
TileScope::~TileScope() { release_tiles(); }

FOVEA_AMX void pack_first(const Factor& factor, int64_t begin, int64_t count, int64_t first,
                          int64_t depth, uint16_t* to) {
  const int64_t row = factor.is_transposed ? first : begin, column = first + begin - row;
  pack_panel(factor.data + row * factor.stride + column, factor.stride, !factor.is_transposed,
             factor.is_transposed, count, depth, to);
}

FOVEA_AMX void pack_second(const Factor& factor, int64_t begin, int64_t count, int64_t first,
                           int64_t depth, uint16_t* to) {
  const int64_t row = factor.is_transposed ? begin : first, column = first + begin - row;
  pack_panel(factor.data + row * factor.stride + column, factor.stride, factor.is_transposed,
             factor.is_transposed, count, depth, to);
}

FOVEA_AMX void multiply_panels(const uint16_t* first, const uint16_t* second, int64_t steps,
                               bool adds, float* block) {
  constexpr int kRow = kBlockSide * sizeof(float);
  // The compiler's tile loads do not say that they read memory: what was stored has to be there.
  __asm__ volatile("" ::: "memory");
  float* const below = block + kTileRows * kBlockSide;
  if (adds) {
    _tile_loadd(0, block, kRow);
    _tile_loadd(1, block + kTileRows, kRow);
    _tile_loadd(2, below, kRow);
    _tile_loadd(3, below + kTileRows, kRow);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t i = 0; i < steps; ++i, first += kStepValues, second += kStepValues) {
    _tile_loadd(4, first, kTileRowBytes);
    _tile_loadd(6, second, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, second + kTileValues, kTileRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, first + kTileValues, kTileRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, block, kRow);
  _tile_stored(1, block + kTileRows, kRow);
  _tile_stored(2, below, kRow);
  _tile_stored(3, below + kTileRows, kRow);
}

FOVEA_AMX void store_block(const float* block, const BlockTarget& to) {
  const auto mask = first_values(to.columns);
  const bool is_streamed = to.is_streamed && to.columns >= kBlockSide &&
                           to.stride % kBlockSide == 0 &&
                           reinterpret_cast<uintptr_t>(to.data) % kTileRowBytes == 0;
  const auto* bias = to.bias;
  const auto low_bias =
      bias ? _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), bias) : _mm512_setzero_ps();
  const auto high_bias = bias ? _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), bias + 16)
                              : _mm512_setzero_ps();
  for (int64_t i = 0; i < to.rows; ++i, block += kBlockSide) {
    const auto factor = _mm512_set1_ps(to.row_factors ? to.row_factors[i] : 1.0f);
    const auto low = _mm512_fmadd_ps(_mm512_load_ps(block), factor, low_bias);
    const auto high = _mm512_fmadd_ps(_mm512_load_ps(block + 16), factor, high_bias);
    store(round_to_bfloat16(low, high), mask, is_streamed, to.data + i * to.stride);
  }
}

FOVEA_AMX void store_block(const float* block, const FloatBlockTarget& to) {
  for (int64_t row = 0; row < kBlockSide; row += kTileRows) {
    for (int64_t column = 0; column < kBlockSide; column += kTileRows) {
      __m512i values[16];
      for (int i = 0; i < 16; ++i) {
        values[i] = _mm512_load_si512(block + (row + i) * kBlockSide + column);
      }
      if (to.is_transposed) transpose(values);
      const auto down = to.is_transposed ? column : row, across = row + column - down;
      const auto mask = static_cast<__mmask16>(first_values(to.columns - across));
      const auto count = std::clamp<int64_t>(to.rows - down, 0, 16);
      for (int i = 0; i < count; ++i) {
        _mm512_mask_storeu_ps(to.data + (down + i) * to.stride + across, mask,
                              _mm512_castsi512_ps(values[i]));
      }
    }
  }
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP

#else

namespace fovea::kernels::cpu {
namespace {

[[noreturn]] void refuse() { fail("AMX on a processor that has none; ask has_amx first"); }

}  // namespace

bool has_amx() { return false; }
TileScope::TileScope() { refuse(); }
TileScope::~TileScope() = default;
void pack_first(const Factor&, int64_t, int64_t, int64_t, int64_t, uint16_t*) { refuse(); }
void pack_second(const Factor&, int64_t, int64_t, int64_t, int64_t, uint16_t*) { refuse(); }
void multiply_panels(const uint16_t*, const uint16_t*, int64_t, bool, float*) { refuse(); }
void store_block(const float*, const BlockTarget&) { refuse(); }
void store_block(const float*, const FloatBlockTarget&) { refuse(); }

}  // namespace fovea::kernels::cpu

#endif
