// The row loop of a symmetric filter, compiled for each instruction set.
#pragma once

#include <cstdint>

namespace fovea::data::patching {

// out[x] = weights[0] middle[x] + the sum over k = radius ... 1 of weights[k] (before[k][x] +
// after[k][x]), summed in double, stored as float. before, after: [radius + 1], element 0 unused.
void filter_line(const double* middle, const double* const* before, const double* const* after,
                 const double* weights, int64_t radius, int64_t count, float* out);

void widen_line(const float* in, int64_t count, double* out);

}  // namespace fovea::data::patching
