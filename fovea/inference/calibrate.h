// The ranges that calibrated int8 takes, measured on samples that a predictor is asked about.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/inference/pass.h"
#include "fovea/inference/predictor.h"
#include "fovea/train/evaluate/int8_range_meter.h"
#include "fovea/train/recipe/int8_ranges.h"

namespace fovea::inference {

struct CalibrationOptions {
  train::Int8RangeRule rule = train::Int8RangeRule::kLeastSquares;
  std::vector<std::string> skip = {};  // layers that get no range
  int64_t batch_size = kPassSize;      // asked about together; changes no bit
  std::function<void(int64_t done, int64_t total)> on_progress = {};
};

// Of the answers that the model gives in float32; inputs are prepared as the predictor prepares
// them. From then on no layer of it multiplies 8-bit integers. Nobody else asks it meanwhile.
// Throws what Int8Calibration throws, and DataError for an input that cannot be read.
train::Int8Ranges calibrate(const Predictor& predictor, const std::vector<Input>& inputs,
                            const CalibrationOptions& options);

// `most` of `size` numbers from 0 on, or all, evenly far apart.
std::vector<int64_t> evenly_among(int64_t size, int64_t most);

// At most so many of data.train of the run. Throws ConfigError where it has none; DataError.
std::vector<Input> training_inputs(const train::Inference& inference, int64_t most);

}  // namespace fovea::inference
