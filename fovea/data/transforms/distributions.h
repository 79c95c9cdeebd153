// Draws from distributions other than the uniform one, as functions of a RandomStream.
#pragma once

#include "fovea/core/philox.h"

namespace fovea::data {

// Standard normal (Box and Muller 1958). Two uniform draws.
double draw_normal(RandomStream& random);

// Gamma with scale 1 (Marsaglia and Tsang 2000); shape > 0.
double draw_gamma(double shape, RandomStream& random);

// Beta(a, b), both above 0: Johnk's method where both are at most 1, else two gamma draws. Always
// in [0, 1], also where powers leave the range of a double.
double draw_beta(double a, double b, RandomStream& random);

}  // namespace fovea::data
