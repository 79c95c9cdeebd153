// Draws of step-0 weights. Compiled without contraction of products and sums (CMakeLists.txt), so
// that every instruction set gives the same bits.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "fovea/core/philox_blocks.h"
#include "fovea/core/simd.h"
#include "fovea/nn/init.h"

namespace fovea::nn {
namespace {

// Without a loop of its own, which would keep the one around it from being vectorised.
template <size_t... kPowers>
inline __attribute__((always_inline)) double polynomial(
    const std::array<double, sizeof...(kPowers)>& coefficients, double x,
    std::index_sequence<kPowers...>) {
  double sum = 0.0;
  ((sum = sum * x + coefficients[sizeof...(kPowers) - 1 - kPowers]), ...);
  return sum;
}

inline __attribute__((always_inline)) double polynomial(const std::array<double, 8>& coefficients,
                                                        double x) {
  return polynomial(coefficients, x, std::make_index_sequence<8>());
}

// The standard normal quantile, relative error 1e-16: algorithm AS 241, PPND16 (Wichura 1988). By
// rational functions: of q = p - 0.5 where that is within kCentral of 0, else of
// r = sqrt(-log(min(p, 1 - p))), one up to kNear and another beyond.
constexpr double kCentral = 0.425, kNear = 5.0;
constexpr std::array<double, 8> kA = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                      1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                      4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                      3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr std::array<double, 8> kB = {1.0,
                                      4.2313330701600911252e+1,
                                      6.8718700749205790830e+2,
                                      5.3941960214247511077e+3,
                                      2.1213794301586595867e+4,
                                      3.9307895800092710610e+4,
                                      2.8729085735721942674e+4,
                                      5.2264952788528545610e+3};
constexpr std::array<double, 8> kC = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                      5.76949722146069140550e0,  3.64784832476320460504e0,
                                      1.27045825245236838258e0,  2.41780725177450611770e-1,
                                      2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> kD = {1.0,
                                      2.05319162663775882187e0,
                                      1.67638483018380384940e0,
                                      6.89767334985100004550e-1,
                                      1.48103976427480074590e-1,
                                      1.51986665636164571966e-2,
                                      5.47593808499534494600e-4,
                                      1.05075007164441684324e-9};
constexpr std::array<double, 8> kE = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                      1.78482653991729133580e0,  2.96560571828504891230e-1,
                                      2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                      2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array<double, 8> kF = {1.0,
                                      5.99832206555887937690e-1,
                                      1.36929880922735805310e-1,
                                      1.48753612908506148525e-2,
                                      7.86869131145613259100e-4,
                                      1.84631831751005468180e-5,
                                      1.42151175831644588870e-7,
                                      2.04426310338993978564e-15};

constexpr int64_t kDraws = 4 * kPhiloxBlocks;  // worked on side by side

// A number in (0, 1), 32 bits, centred so that neither end comes up.
inline double unit(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

FOVEA_SIMD void draw_uniform(double bound, const uint32_t* words, float* out) {
  for (int64_t i = 0; i < kDraws; ++i) {
    out[i] = static_cast<float>(bound * (2.0 * unit(words[i]) - 1.0));
  }
}

// p = low + u span; the values of all, right where p is central, and p itself.
FOVEA_SIMD void draw_central(double std, double low, double span, const uint32_t* words, double* p,
                             float* out) {
  for (int64_t i = 0; i < kDraws; ++i) {
    p[i] = low + unit(words[i]) * span;
    const double q = p[i] - 0.5;
    const double r = 0.180625 - q * q;
    out[i] = static_cast<float>(std * (q * polynomial(kA, r) / polynomial(kB, r)));
  }
}

// r: sqrt(-log(...)) of each; the values are right up to kNear.
FOVEA_SIMD void draw_near_tails(int64_t count, const double* r, double* tails) {
  for (int64_t i = 0; i < count; ++i) {
    tails[i] = polynomial(kC, r[i] - 1.6) / polynomial(kD, r[i] - 1.6);
  }
}

void draw_tails(double std, const double* p, float* out) {
  std::array<double, kDraws> r{}, tails{};
  std::array<int64_t, kDraws> places{};
  int64_t count = 0;
  for (int64_t i = 0; i < kDraws; ++i) {
    places[count] = i;
    count += std::abs(p[i] - 0.5) > kCentral;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double at = p[places[i]];
    r[i] = std::sqrt(-std::log(at < 0.5 ? at : 1.0 - at));
  }
  draw_near_tails(count, r.data(), tails.data());
  for (int64_t i = 0; i < count; ++i) {
    if (r[i] > kNear) tails[i] = polynomial(kE, r[i] - 5.0) / polynomial(kF, r[i] - 5.0);
    out[places[i]] = static_cast<float>(std * (p[places[i]] < 0.5 ? -tails[i] : tails[i]));
  }
}

// kDraws values of a rule that draws.
void draw(const InitRule& rule, PhiloxKey key, uint64_t first_block, float* out) {
  std::array<uint32_t, kDraws> words;
  philox_blocks(
      key, {static_cast<uint32_t>(first_block), static_cast<uint32_t>(first_block >> 32), 0, 0},
      words.data());
  if (rule.kind == InitRule::Kind::kUniform) return draw_uniform(rule.value, words.data(), out);
  constexpr double kBelowMinusTwo = 0.022750131948179207;  // of the standard normal
  const bool is_truncated = rule.kind == InitRule::Kind::kTruncatedNormal;
  const double low = is_truncated ? kBelowMinusTwo : 0.0;
  std::array<double, kDraws> p;
  draw_central(rule.value, low, 1.0 - 2.0 * low, words.data(), p.data(), out);
  draw_tails(rule.value, p.data(), out);
}

}  // namespace

void generate(const InitRule& rule, PhiloxKey key, int64_t first_index, std::span<float> out) {
  if (rule.kind == InitRule::Kind::kConstant) {
    std::fill(out.begin(), out.end(), static_cast<float>(rule.value));
    return;
  }
  std::array<float, kDraws> drawn;
  for (size_t done = 0; done < out.size();) {
    const auto index = static_cast<uint64_t>(first_index) + done;
    const auto skipped = index % 4;  // of the first block
    const auto count = std::min<size_t>(kDraws - skipped, out.size() - done);
    draw(rule, key, index / 4, drawn.data());
    std::copy_n(drawn.begin() + static_cast<int64_t>(skipped), count,
                out.begin() + static_cast<int64_t>(done));
    done += count;
  }
}

}  // namespace fovea::nn
