#include "fovea/data/transforms/distributions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// Johnk 1964, with logarithms where both powers vanish.
double draw_beta_johnk(double a, double b, RandomStream& random) {
  while (true) {
    const double u = random.uniform(0.0, 1.0);
    const double v = random.uniform(0.0, 1.0);
    const double x = std::pow(u, 1.0 / a);
    const double y = std::pow(v, 1.0 / b);
    if (x + y > 1.0) continue;
    if (x + y > 0.0) return x / (x + y);
    const double log_x = std::log(u) / a;
    const double log_y = std::log(v) / b;
    const double largest = std::max(log_x, log_y);
    return std::exp(log_x - largest -
                    std::log(std::exp(log_x - largest) + std::exp(log_y - largest)));
  }
}

}  // namespace

double draw_normal(RandomStream& random) {
  const double radius = std::sqrt(-2.0 * std::log(random.uniform(0.0, 1.0)));
  return radius * std::cos(2.0 * std::numbers::pi * random.uniform(0.0, 1.0));
}

double draw_gamma(double shape, RandomStream& random) {
  FOVEA_CHECK(shape > 0, "gamma of shape {}; expected a number above 0", shape);
  if (shape < 1) {
    const double larger = draw_gamma(shape + 1, random);
    return larger * std::pow(random.uniform(0.0, 1.0), 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double normal = draw_normal(random);
    const double v = std::pow(1.0 + c * normal, 3);
    if (v <= 0) continue;
    const double log_u = std::log(random.uniform(0.0, 1.0));
    if (log_u < 0.5 * normal * normal + d - d * v + d * std::log(v)) return d * v;
  }
}

double draw_beta(double a, double b, RandomStream& random) {
  FOVEA_CHECK(a > 0 && b > 0, "beta({}, {}); expected numbers above 0", a, b);
  if (a <= 1 && b <= 1) return draw_beta_johnk(a, b, random);
  const double x = draw_gamma(a, random);
  return x / (x + draw_gamma(b, random));
}

}  // namespace fovea::data
