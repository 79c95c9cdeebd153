// What a product is of: [rows, depth] times [depth, columns].
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

struct ProductSizes {
  int64_t rows, columns, depth;  // all above 0
};

}  // namespace fovea::kernels::cpu
