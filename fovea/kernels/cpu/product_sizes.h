// What a product is of: [rows, depth] times [depth, columns].
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

struct ProductSizes {
  int64_t rows, columns, depth;  // all above 0
};

// In how many parts of `most` at most.
inline int64_t parts_of(int64_t size, int64_t most) { return (size + most - 1) / most; }

}  // namespace fovea::kernels::cpu
