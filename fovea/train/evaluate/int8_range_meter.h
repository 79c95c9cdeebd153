// The range that a layer's inputs are held to in calibrated int8, out of the inputs of many passes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/kernels/linear/int8_range.h"

namespace fovea::train {

// Note [Calibrated ranges]
// A narrow range has small steps for the many values inside and cuts the few outside. min_max cuts
// none; least_squares takes the ends where the squares of both errors add up to least: a value
// inside is off by step^2 / 12 in the mean, one outside by its way to the end.
enum class Int8RangeRule { kMinMax, kLeastSquares };

// "min_max", "least_squares".
const char* int8_range_rule_name(Int8RangeRule rule);
// Throws ConfigError.
Int8RangeRule int8_range_rule(const std::string& name);

// Values counted by their upper 16 bits, which is in steps of 1 in 128 at most whatever their size.
// So there is one pass, and what comes out does not depend on the order of the values.
class Int8RangeMeter {
 public:
  // float32 on the CPU.
  void add(const at::Tensor& values);

  bool has_values() const;
  bool are_finite() const;
  // Of finite values.
  kernels::Int8Range range(Int8RangeRule rule) const;

 private:
  std::vector<int64_t> counts_ = std::vector<int64_t>(1 << 16);
  float least_ = 0, largest_ = 0;
};

}  // namespace fovea::train
