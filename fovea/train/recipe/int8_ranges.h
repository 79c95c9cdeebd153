// The file of ranges that calibrated int8 holds the inputs of layers to: measured once, by `fovea
// calibrate`, and kept beside the weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fovea/kernels/linear/int8_range.h"

namespace fovea::train {

struct Int8LayerRange {
  kernels::Int8Range inputs;
  std::string weight;  // the checksum of the layer's weight, of which the range is

  bool operator==(const Int8LayerRange&) const = default;
};

struct Int8Ranges {
  std::string rule;                              // by which they were chosen
  int64_t num_samples = 0;                       // that they were measured on
  std::map<std::string, Int8LayerRange> layers;  // by name: "blocks.0.attn.qkv"
  std::string source;                            // the file, for messages

  bool operator==(const Int8Ranges&) const = default;
};

std::string format_int8_ranges(const Int8Ranges& ranges);
// source: for messages. Throws DataError.
Int8Ranges parse_int8_ranges(const std::string& text, const std::string& source);
Int8Ranges read_int8_ranges(const std::string& path);

// STEM.int8_ranges.json beside a file of weights, or in a folder of them.
std::string int8_ranges_beside(const std::string& weights);

}  // namespace fovea::train
