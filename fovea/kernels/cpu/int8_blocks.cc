#include "fovea/kernels/cpu/int8_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/avx512.h"
#include "fovea/kernels/cpu/int8_bytes.h"
#include "fovea/kernels/cpu/int8_vectors.h"
#include "fovea/kernels/cpu/processor.h"
#include "fovea/kernels/cpu/tiles.h"

FOVEA_INTRINSICS_PUSH
namespace fovea::kernels::cpu {
namespace {

struct FormTraits {
  Int8Form form;
  const char* name;
  KernelPath level;  // the first one that has it
};
constexpr std::array<FormTraits, 5> kForms = {{
    {Int8Form::kPairs, "pairs", KernelPath::kBaseline},
    {Int8Form::kBytes, "bytes", KernelPath::kAvx2},
    {Int8Form::kVnni256, "avx_vnni", KernelPath::kAvx2},
    {Int8Form::kVnni512, "avx512_vnni", KernelPath::kAvx512},
    {Int8Form::kTiles, "amx_int8", KernelPath::kAmx},
}};

[[noreturn]] void refuse_form(Int8Form form) {
  fail("products of 8-bit integers as {} on a processor without; ask has_int8_form first",
       int8_form_name(form));
}

constexpr int kRows256 = 6, kRows512 = 12;

#ifdef __x86_64__

inline int32_t group_at(const uint8_t* from) {
  int32_t group;
  std::memcpy(&group, from, sizeof(group));
  return group;
}

// Both: loops over rows must be unrolled, so that sums stand in registers.
FOVEA_AVX_VNNI void multiply_vnni256(const Int8Factors& factors, bool adds, int32_t* sums) {
  auto* to = reinterpret_cast<__m256i*>(sums);  // [kRows256, 2]
  __m256i sum[kRows256][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows256; ++r) {
    sum[r][0] = adds ? _mm256_loadu_si256(to + 2 * r) : _mm256_setzero_si256();
    sum[r][1] = adds ? _mm256_loadu_si256(to + 2 * r + 1) : _mm256_setzero_si256();
  }
  const auto* rows = factors.rows;
  const auto* strip = reinterpret_cast<const __m256i*>(factors.strip);
  auto coming = factors.coming;
  for (int64_t i = 0; i < factors.groups; ++i, rows += Int8Layout::kGroupBytes, strip += 2) {
    if (i % kInt8GroupsOfStep == 0) coming.bring<2>();
    const auto first = _mm256_loadu_si256(strip), second = _mm256_loadu_si256(strip + 1);
#pragma GCC unroll 6
    for (int r = 0; r < kRows256; ++r) {
      const auto group = _mm256_set1_epi32(group_at(rows + r * factors.stride));
      sum[r][0] = _mm256_dpbusd_avx_epi32(sum[r][0], group, first);
      sum[r][1] = _mm256_dpbusd_avx_epi32(sum[r][1], group, second);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows256; ++r) {
    _mm256_storeu_si256(to + 2 * r, sum[r][0]);
    _mm256_storeu_si256(to + 2 * r + 1, sum[r][1]);
  }
}

FOVEA_AVX512_VNNI void multiply_vnni512(const Int8Factors& factors, bool adds, int32_t* sums) {
  constexpr int kLanes = 16;
  __m512i sum[kRows512][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows512; ++r) {
    const auto* from = sums + 2 * r * kLanes;
    sum[r][0] = adds ? _mm512_loadu_si512(from) : _mm512_setzero_si512();
    sum[r][1] = adds ? _mm512_loadu_si512(from + kLanes) : _mm512_setzero_si512();
  }
  const auto *rows = factors.rows, *strip = factors.strip;
  auto coming = factors.coming;
  for (int64_t i = 0; i < factors.groups; ++i, rows += Int8Layout::kGroupBytes, strip += 128) {
    if (i % kInt8GroupsOfStep == 0) coming.bring<2>();
    const auto first = _mm512_loadu_si512(strip), second = _mm512_loadu_si512(strip + 64);
#pragma GCC unroll 12
    for (int r = 0; r < kRows512; ++r) {
      const auto group = _mm512_set1_epi32(group_at(rows + r * factors.stride));
      sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], group, first);
      sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], group, second);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows512; ++r) {
    _mm512_storeu_si512(sums + 2 * r * kLanes, sum[r][0]);
    _mm512_storeu_si512(sums + (2 * r + 1) * kLanes, sum[r][1]);
  }
}

#else

void multiply_vnni256(const Int8Factors&, bool, int32_t*) { refuse_form(Int8Form::kVnni256); }
void multiply_vnni512(const Int8Factors&, bool, int32_t*) { refuse_form(Int8Form::kVnni512); }

#endif

}  // namespace

const char* int8_form_name(Int8Form form) { return kForms[static_cast<size_t>(form)].name; }

bool has_int8_form(Int8Form form) {
  switch (form) {
    case Int8Form::kPairs:
      return true;
    case Int8Form::kBytes:
      return has_avx2();
    case Int8Form::kVnni256:
      return has_avx_vnni();
    case Int8Form::kVnni512:
      return has_avx512_vnni();
    case Int8Form::kTiles:
      return has_amx_int8();
  }
  return false;
}

std::vector<Int8Form> int8_forms_here() {
  std::vector<Int8Form> forms;
  for (const auto& traits : kForms) {
    if (has_int8_form(traits.form)) forms.push_back(traits.form);
  }
  return forms;
}

Int8Form best_int8_form(KernelPath level) {
  auto best = Int8Form::kPairs;
  for (const auto& traits : kForms) {
    if (traits.level <= level && has_int8_form(traits.form)) best = traits.form;
  }
  return best;
}

Int8Row int8_row(const Int8Range& range) {
  constexpr int kMostCode = 255;
  constexpr float kLeastScale = std::numeric_limits<float>::min();  // its inverse is finite
  const float scale = range.largest / kMostCode - range.least / kMostCode;
  if (!(scale >= kLeastScale)) return {0, 0};
  const auto zero = std::lrintf(-range.least * (1 / scale));
  return {scale, static_cast<int32_t>(std::min<long>(kMostCode, zero))};
}

Int8Layout int8_layout(Int8Form form) {
  switch (form) {
    case Int8Form::kPairs:
      return {.group = 2, .width = pairs_width(), .rows = pairs_rows(), .depth = 2};
    case Int8Form::kBytes:
      return {.group = 4,
              .width = kInt8BytesWidth,
              .rows = kInt8BytesRows,
              .depth = 4,
              .most_depth = kMostInt8Depth};
    case Int8Form::kVnni256:
      return {.group = 4, .width = 16, .rows = kRows256, .depth = 4};
    case Int8Form::kVnni512:
      return {.group = 4, .width = 32, .rows = kRows512, .depth = 4, .most_depth = 768};
    case Int8Form::kTiles:
      return {.group = 4, .width = 32, .rows = 2 * kInt8TileRows, .depth = kInt8TileDepth};
  }
  refuse_form(form);
}

Int8Scope::Int8Scope(Int8Form form) : form_(form) {
  if (form == Int8Form::kTiles) configure_tiles();
}

Int8Scope::~Int8Scope() {
  if (form_ == Int8Form::kTiles) release_tiles();
}

void multiply_int8_block(const Int8Scope& scope, const Int8Factors& factors, bool adds,
                         int32_t* sums) {
  switch (scope.form()) {
    case Int8Form::kPairs:
      return multiply_block_of_pairs(factors, adds, sums);
    case Int8Form::kBytes:
      return multiply_int8_bytes(factors, adds, sums);
    case Int8Form::kVnni256:
      return multiply_vnni256(factors, adds, sums);
    case Int8Form::kVnni512:
      return multiply_vnni512(factors, adds, sums);
    case Int8Form::kTiles:
      return multiply_int8_in_tiles(factors, adds, sums);
  }
}

}  // namespace fovea::kernels::cpu
FOVEA_INTRINSICS_POP
