// The ranges of layers' inputs, measured while a model computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/nn/block_linears.h"
#include "fovea/train/evaluate/int8_range_meter.h"
#include "fovea/train/recipe/int8_ranges.h"

namespace fovea::train {

// While it lives, float32 passes of the model on the CPU, one at a time, are measured: the inputs
// of the layers of int8_layers(), none of which multiplies 8-bit integers from then on.
class Int8Calibration {
 public:
  // copies: of the model; both outlive it. Throws what int8_layers() throws, and CheckpointError
  // for a weight that is not finite.
  Int8Calibration(nn::UnitImpl& model, kernels::WeightCopies& copies,
                  const std::vector<std::string>& skip);
  ~Int8Calibration();
  Int8Calibration(const Int8Calibration&) = delete;
  Int8Calibration& operator=(const Int8Calibration&) = delete;

  // num_samples: of the passes. Throws DataError for a layer with inputs that are not finite,
  // ConfigError for one that no pass came through.
  Int8Ranges ranges(Int8RangeRule rule, int64_t num_samples) const;

 private:
  kernels::WeightCopies& copies_;
  nn::NamedLinears layers_;
  std::vector<Int8RangeMeter> meters_;  // one for each
};

}  // namespace fovea::train
