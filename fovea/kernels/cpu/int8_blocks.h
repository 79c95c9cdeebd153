// Blocks of products of 8-bit integers in the calling thread, and the layouts that they are taken
// from.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/kernels/cpu/coming_bytes.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/linear/int8_range.h"

namespace fovea::kernels::cpu {

// Note [Int8]
// A row of a first factor is scale * (code - zero), with codes of 0 to 255 between its own least
// and largest value, or between the ends of a range that is given for all rows, which values
// outside become; a column of a second one, which is a weight, is scale * code, with codes of
// -127 to 127 and the scale of its largest value. The product of the codes is exact in sums of 32
// bits, and zero times the sum of a column's codes, which is known beforehand, is taken from it. So
// a result is rounded where codes are made and where scales are multiplied in, and nowhere else: it
// has the same bits for any instructions, cuts and threads, and whatever rows stand beside a row.
//
// Codes that are neighbours in depth share 32 bits: four of 8 bits, of which VNNI and AMX multiply
// four pairs and add them up in one instruction; elsewhere two of 16 bits. AVX2
// multiplies bytes, too, but adds two products in 16 bits, where not all would fit. Such a group is
// a value of the layout: rows of the first factor are groups one behind another; the second factor
// is packed by strips of columns, [strips, groups, width].
enum class Int8Form {
  kPairs,    // of 16 bits, on any processor
  kBytes,    // AVX2, see int8_bytes.h
  kVnni256,  // AVX-VNNI
  kVnni512,  // AVX-512 VNNI
  kTiles,    // AMX
};

// "pairs", "bytes", "avx_vnni", "avx512_vnni", "amx_int8".
const char* int8_form_name(Int8Form form);

// Whether this processor has it.
bool has_int8_form(Int8Form form);
std::vector<Int8Form> int8_forms_here();
// The best one of those that belong to this instruction set or an older one.
Int8Form best_int8_form(KernelPath level);

// What codes of a row stand for: scale * (code - zero). Of a row of zeros the scale is 0; of one
// where something is not finite it is NaN, which every result of the row becomes.
struct Int8Row {
  float scale;
  int32_t zero;
};
// For numbers between these two, with 0 among them, both finite.
Int8Row int8_row(const Int8Range& range);

// Above it sums of products might not fit into 32 bits.
inline constexpr int64_t kMostInt8Depth = 65536;

struct Int8Layout {
  int64_t group;  // codes of a group
  int64_t width;  // columns of a strip
  int64_t rows;   // of a block
  int64_t depth;  // codes that a depth is filled up to a multiple of, with zeros in the strips
  // So many codes of a strip stay in the caches while all rows of a part come by.
  int64_t most_depth = 384;

  int64_t code_bytes() const { return kGroupBytes / group; }
  static constexpr int64_t kGroupBytes = 4;
};
Int8Layout int8_layout(Int8Form form);

// Around products: the form's unit is ready for a thread.
class Int8Scope {
 public:
  explicit Int8Scope(Int8Form form);
  ~Int8Scope();
  Int8Scope(const Int8Scope&) = delete;
  Int8Scope& operator=(const Int8Scope&) = delete;
  Int8Form form() const { return form_; }

 private:
  Int8Form form_;
};

// Of Int8Form::kBytes, whose strips are not in the order of their groups.
struct Int8StripOrder {
  const int32_t* places;  // [groups] where their codes begin in a row, in bytes
  int64_t num_fitting;    // so many come first whose products fit into 16 bits
  const int32_t* shifts;  // [width] what sums begin with for the others
};

// Groups of a step of what comes with a block: the depth of a tile.
inline constexpr int64_t kInt8GroupsOfStep = 16;

// sums: [rows, width] = (adds ? sums : 0) + the product of a whole block of rows, `stride` bytes
// apart, and a strip, both of `groups` groups, at a cache line, a multiple of the layout's depth.
struct Int8Factors {
  const uint8_t* rows;
  int64_t stride;
  const uint8_t* strip;
  int64_t groups;
  int64_t wanted_rows;  // of the block; sums of the others may be anything
  Int8StripOrder order = {};
  ComingBytes coming = {};  // pairs leave it to the processor
};
void multiply_int8_block(const Int8Scope& scope, const Int8Factors& factors, bool adds,
                         int32_t* sums);

}  // namespace fovea::kernels::cpu
