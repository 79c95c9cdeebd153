// What the value of a node is made of, whether its detail lies in memory or not.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/adaptive/canny.h"
#include "fovea/data/adaptive/detail.h"

namespace fovea::data::patching {

inline constexpr int64_t kThresholdStep = 50;  // from the lower threshold to the upper one

inline int64_t blur_size(const DetailDraw& draw) { return std::max<int64_t>(draw.smoothing, 1); }

inline CannyOptions canny_options(int64_t blur_size, const DetailDraw& draw) {
  return {blur_size, draw.canny_low, draw.canny_low + kThresholdStep};
}

// For the criteria that an image does not know.
[[noreturn]] inline void fail_for_images(const AdaptivePatchingConfig& config) {
  fail<ConfigError>(
      "adaptive patching: criterion={} on an image; it is for volumes, choose canny, gradient or "
      "variance",
      config.criterion);
}

// Noise of one pixel, in parts of 2^16; and that of a box: uniform in [0, 1), summed, over 255,
// rounded down: UCF-VIT's.
inline uint16_t draw_noise(RandomStream& random) {
  return static_cast<uint16_t>(random.next_word() >> 16);
}
inline int64_t noise_value(uint64_t sum) { return static_cast<int64_t>(sum / (255 * 65536)); }

// Squared deviation from the mean over a box, summed over channels: the sum of all squares, then
// the sum of each channel.
class SquaredDeviation {
 public:
  SquaredDeviation(uint64_t squares, int64_t voxels)
      : rest_(static_cast<double>(squares)), voxels_(static_cast<double>(voxels)) {}
  void add_channel(uint64_t channel_sum) {
    const auto sum = static_cast<double>(channel_sum);
    rest_ -= sum * sum / voxels_;
  }
  int64_t value() const { return static_cast<int64_t>(std::max(rest_, 0.0)); }

 private:
  double rest_;
  double voxels_;
};

}  // namespace fovea::data::patching
