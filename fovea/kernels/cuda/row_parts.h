// The parts that the rows of a matrix are cut into for sums over rows, by their number alone, so
// that sums have one order. A part leaves a row of partial sums.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fovea::kernels::cuda {

inline constexpr int64_t kMinRowsOfPart = 64, kMaxPartsOfRows = 256;

// Rows of a part.
inline int64_t rows_of_part(int64_t M) {
  return std::max(kMinRowsOfPart, (M + kMaxPartsOfRows - 1) / kMaxPartsOfRows);
}

inline int64_t parts_of_rows(int64_t M) { return (M + rows_of_part(M) - 1) / rows_of_part(M); }

}  // namespace fovea::kernels::cuda
