// A factor of a product as it lies inside of something larger.
#pragma once

#include <ATen/ops/full.h>

#include <limits>

namespace fovea::support {

// values: [rows, columns], either way round, its rows with `behind` NaN around them, two of which
// come first.
struct StoredFactor {
  StoredFactor(const at::Tensor& values, bool is_transposed, int64_t behind = 3)
      : values(values), is_transposed(is_transposed) {
    const auto stored = is_transposed ? values.t() : values;
    whole = at::full({stored.size(0), stored.size(1) + behind},
                     std::numeric_limits<float>::quiet_NaN(), values.options());
    whole.narrow(1, 2, stored.size(1)).copy_(stored);
  }
  int64_t stride() const { return whole.size(1); }

  at::Tensor values, whole;
  bool is_transposed;
};

}  // namespace fovea::support
