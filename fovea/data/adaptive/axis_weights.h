// Weights of the resampling rules, and the nearest elements for labels.
#pragma once

#include <cstdint>

#include "fovea/data/adaptive/resample.h"

namespace fovea::data::patching {

// Throws Error for kArea where out is above in.
void make_axis(int64_t in, int64_t out, AxisRule rule, AxisWeights& axis);

// Outputs [first, first + count) of an axis, as an axis of their own. Not for widths.
AxisWeights part_of_axis(const AxisWeights& axis, int64_t first, int64_t count);

enum class NearestRule {
  kCentre,   // the element that holds the centre of the output element
  kFloor,    // OpenCV's INTER_NEAREST
  kAligned,  // first on first and last on last; halves go down
};

// Of classes on their way back into a leaf.
inline constexpr NearestRule kLabelRule = NearestRule::kCentre;

int64_t nearest(int64_t i, int64_t in, int64_t out, NearestRule rule);

}  // namespace fovea::data::patching
