#include "fovea/nn/sinusoid.h"

#include <ATen/ops/empty.h>

#include <cmath>

namespace fovea::nn {

at::Tensor sinusoid_table(int64_t num_positions, int64_t dim) {
  auto table = at::empty({1, num_positions, dim}, at::kFloat);
  float* values = table.data_ptr<float>();
  for (int64_t position = 0; position < num_positions; ++position) {
    for (int64_t j = 0; j < dim; ++j) {
      const double exponent = static_cast<double>(j / 2 * 2) / static_cast<double>(dim);
      const double angle = static_cast<double>(position) / std::pow(10000.0, exponent);
      *values++ = static_cast<float>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace fovea::nn
