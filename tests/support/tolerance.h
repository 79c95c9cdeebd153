// The one table of tolerances: what rounding in a dtype may cost, relative to the largest value of
// the tensor.
#pragma once

#include <c10/core/ScalarType.h>

namespace fovea::support {

struct Tolerance {
  double rtol = 0.0;
  double atol = 0.0;

  static Tolerance for_dtype(at::ScalarType dtype) {
    switch (dtype) {
      case at::kDouble:
        return {.rtol = 1e-10, .atol = 1e-10};
      case at::kBFloat16:
        return {.rtol = 2e-2, .atol = 2e-3};
      case at::kHalf:
        return {.rtol = 2.5e-3, .atol = 2.5e-4};
      default:
        return {.rtol = 1e-5, .atol = 1e-6};
    }
  }
};

}  // namespace fovea::support
