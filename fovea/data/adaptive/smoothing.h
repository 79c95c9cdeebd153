// A volume on its way to edges: smoothed, then on a scale of bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/data/volume/volume.h"

namespace fovea::data::patching {

// Buffers that a thread keeps from volume to volume.
struct SmoothingScratch {
  std::vector<double> weights;        // [radius + 1], from the middle outwards
  std::vector<double> lines;          // a slice, or its part, widened to double
  std::vector<double> row;            // a row with its borders
  std::vector<const double*> before;  // [radius + 1]
  std::vector<const double*> after;   // [radius + 1]
  std::vector<float> middle;          // [D, H, W] between the passes
};

// SciPy's gaussian_filter with the same deviation along D, H and W (truncated at four deviations,
// "reflect" at the borders, sums in double, float between the passes). sigma 0: a copy.
// in, out: [D, H, W], not the same.
void gaussian_smooth(std::span<const float> in, VolumeSize size, int64_t sigma,
                     std::vector<float>& out, SmoothingScratch& scratch);

// A row under OpenCV's Gaussian kernel of side 3 or 5 (sigma 0, border 101), along itself: in, out
// [W], not the same.
void gaussian_blur_along(const float* in, int64_t width, int64_t blur_size, float* out);
// Across rows that are blurred along themselves: rows, the blur_size rows around the one meant,
// with border 101.
void gaussian_blur_across(const float* const* rows, int64_t width, int64_t blur_size, float* out);

// black -> 0, white -> 255, in between rounded down; beyond them clipped, NaN is black.
void to_bytes(const float* in, int64_t count, double black, double white, uint8_t* out);

// Magnitude of the Sobel gradient in three dimensions: weights 1 2 1 along two axes, -1 0 1 along
// the third, borders repeated; rounded. out[i] becomes the larger of itself and the result, so
// several channels can be put together. in, out: [D, H, W].
void sobel_magnitude(const uint8_t* in, VolumeSize size, uint16_t* out, std::vector<int16_t>& rows);

}  // namespace fovea::data::patching
