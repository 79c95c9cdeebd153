// Many normal deviates at once, each a pure function of a key and its place.
#pragma once

#include <span>

#include "fovea/core/philox.h"

namespace fovea::data {

// values[i] += mean + std * n_i, with n_i independent standard normals: Box and Muller 1958 on the
// words of Philox. Values come in groups of 256, which take the words of 64 blocks: value 64 j + b
// of group g is deviate j of block 64 g + b (counter: that number in 64 bits, then zeros). |n|
// stays below 5.8, as uniform numbers have 23 bits.
void add_standard_normals(PhiloxKey key, float mean, float std, std::span<float> values);

}  // namespace fovea::data
