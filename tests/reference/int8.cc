#include "tests/reference/int8.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace fovea::reference {
namespace {

struct Codes {
  std::vector<int64_t> values;
  float scale = 0;
  int64_t zero = 0;
};

Codes codes_of_row(const float* x, int64_t depth, const RowRange& range) {
  auto [least, largest] = range.value_or(std::pair(0.0f, 0.0f));
  for (int64_t k = 0; k < depth && !range; ++k) {
    least = std::min(least, x[k]);
    largest = std::max(largest, x[k]);
  }
  Codes codes{.values = {}, .scale = largest / 255 - least / 255};
  if (codes.scale == 0) return {std::vector<int64_t>(static_cast<size_t>(depth), 0)};
  const float inverse = 1 / codes.scale;
  codes.zero = std::min(255L, std::lrint(-least * inverse));
  for (int64_t k = 0; k < depth; ++k) {
    codes.values.push_back(std::clamp(std::lrint(x[k] * inverse) + codes.zero, 0L, 255L));
  }
  return codes;
}

Codes codes_of_column(const float* weight, int64_t depth) {
  float largest = 0;
  for (int64_t k = 0; k < depth; ++k) largest = std::max(largest, std::abs(weight[k]));
  Codes codes{.values = {}, .scale = largest / 127};
  const float inverse = codes.scale > 0 ? 1 / codes.scale : 0;
  for (int64_t k = 0; k < depth; ++k) {
    codes.values.push_back(std::clamp(std::lrint(weight[k] * inverse), -127L, 127L));
  }
  return codes;
}

double sum_of_sizes(const float* values, int64_t depth) {
  double sum = 0;
  for (int64_t k = 0; k < depth; ++k) sum += std::abs(static_cast<double>(values[k]));
  return sum;
}

}  // namespace

Int8Product int8_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const RowRange& range) {
  const int64_t M = x.size(0), N = weight.size(0), K = x.size(1);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  Int8Product product{.result = at::empty({M, N}, at::kFloat),
                      .in_float64 = at::empty({M, N}, options),
                      .most_error = at::empty({M, N}, options)};
  std::vector<Codes> columns;
  for (int64_t n = 0; n < N; ++n) {
    columns.push_back(codes_of_column(weight.const_data_ptr<float>() + n * K, K));
  }
  for (int64_t m = 0; m < M; ++m) {
    const auto* values = x.const_data_ptr<float>() + m * K;
    const auto row = codes_of_row(values, K, range);
    const double size = sum_of_sizes(values, K);
    for (int64_t n = 0; n < N; ++n) {
      const auto& column = columns[static_cast<size_t>(n)];
      int64_t sum = 0;
      for (size_t k = 0; k < row.values.size(); ++k) {
        sum += (row.values[k] - row.zero) * column.values[k];
      }
      const float scale = row.scale * column.scale;
      const float scaled = static_cast<float>(sum) * scale;
      const float added = bias.const_data_ptr<float>()[n];
      const double row_scale = row.scale, column_scale = column.scale;
      const int64_t place = m * N + n;
      product.result.mutable_data_ptr<float>()[place] = scaled + added;
      product.in_float64.mutable_data_ptr<double>()[place] =
          static_cast<double>(sum) * row_scale * column_scale + added;
      // Each code is half a step off at most, the largest one, beside a rounded zero, a whole one.
      const auto size_of_column = sum_of_sizes(weight.const_data_ptr<float>() + n * K, K);
      product.most_error.mutable_data_ptr<double>()[place] =
          row_scale * size_of_column +
          column_scale / 2 * (size + static_cast<double>(K) * row_scale);
    }
  }
  return product;
}

}  // namespace fovea::reference
