// Which linear layers are faster in FP8, by measurement.
#pragma once

#include <c10/core/Device.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fovea::train {

// Of the product of a linear layer on one rank: rows of a micro-batch, and its widths.
struct LinearShape {
  int64_t rows = 0, in_features = 0, out_features = 0;
  auto operator<=>(const LinearShape&) const = default;
};

// Of the three products of forward and backward, with what goes with them.
struct LinearSeconds {
  double bfloat16 = 0, fp8 = 0;
};

using MeasureLinear = std::function<LinearSeconds(const LinearShape&)>;

// Forward and backward of both kinds on noise, casts, scales and bias included: the median of
// several, by turns, after some that do not count.
LinearSeconds measure_linear(const LinearShape& shape, c10::Device device);

struct Fp8Candidate {
  std::string name;
  LinearShape shape;
};

struct Fp8Choice {
  std::vector<std::string> layers;  // that are faster in FP8, in the order of the candidates
  std::string text;                 // one line about all shapes
};

// Measures each distinct shape once.
Fp8Choice choose_fp8(const std::vector<Fp8Candidate>& candidates, const MeasureLinear& measure);

}  // namespace fovea::train
