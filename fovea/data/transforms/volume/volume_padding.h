// Where a place outside a volume is read: the padding modes of torch's grid_sample with
// align_corners=False, whose border lies half a voxel beyond the outer centres.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "fovea/core/error.h"

namespace fovea::data {

enum class PaddingMode { kZeros, kBorder, kReflection };

// "zeros", "border" or "reflection"; throws ConfigError otherwise.
inline PaddingMode padding_mode_from_name(const std::string& name) {
  if (name == "zeros") return PaddingMode::kZeros;
  if (name == "border") return PaddingMode::kBorder;
  if (name == "reflection") return PaddingMode::kReflection;
  fail<ConfigError>("padding_mode={}; expected zeros, border or reflection", name);
}

// In arithmetic, as comparisons become branches. Always inlined: a call would keep the loops of
// FOVEA_SIMD functions from being vectorised.
[[gnu::always_inline]] inline double clamped_position(double at, double last) {
  const double raised = 0.5 * (at + std::fabs(at));
  const double beyond = raised - last;
  return raised - 0.5 * (beyond + std::fabs(beyond));
}

// Mirrored at -0.5 and last + 0.5 as often as needed, then kept within the outer centres. Free of
// branches, so that loops over it are vectorised.
[[gnu::always_inline]] inline double reflected_position(double at, double last) {
  const double span = last + 1.0;
  const double from_border = std::fabs(at + 0.5);
  // A product that rounds to the wrong side of a mirror changes nothing: both sides meet there.
  const double turns = std::floor(from_border * (1.0 / span));
  const double rest = from_border - turns * span;
  const double is_odd = turns - 2.0 * std::floor(0.5 * turns);
  return clamped_position(rest + is_odd * (span - 2.0 * rest) - 0.5, last);
}

[[gnu::always_inline]] inline double padded_position(double at, double last, PaddingMode mode) {
  if (mode == PaddingMode::kBorder) return clamped_position(at, last);
  if (mode == PaddingMode::kReflection) return reflected_position(at, last);
  return at;
}

}  // namespace fovea::data
