// Leaves to patches of one size, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fovea/data/adaptive/tree.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/volume/volume_values.h"

namespace fovea::data {

// How one axis is resampled.
enum class AxisRule {
  kCubic,          // OpenCV's INTER_CUBIC: Keys 1981 with a = -0.75, never widened
  kArea,           // mean over the part that an output element covers; only where shrinking
  kLinear,         // between centres of pixels
  kLinearAligned,  // first on first and last on last: UCF-VIT's grid for volumes
};

struct ResampleRules {
  AxisRule enlarge = AxisRule::kCubic;
  AxisRule shrink = AxisRule::kArea;
};

// Images are enlarged by kCubic, volumes by kLinear; both shrink by kArea. As UCF-VIT does: images
// by kCubic both ways, volumes by kLinearAligned both ways.
ResampleRules resample_rules(bool is_volume, bool upstream_compatible);

// The rule of one axis.
inline AxisRule rule_of(int64_t in, int64_t out, const ResampleRules& rules) {
  return in > out ? rules.shrink : rules.enlarge;
}

// Weights of one axis: output i is the sum over k < taps of weights[i * taps + k] in[starts[i] +
// k].
struct AxisWeights {
  AxisRule rule = AxisRule::kCubic;
  int64_t in = 0;
  int64_t out = 0;
  int64_t taps = 0;
  std::vector<int32_t> starts;  // [out]
  std::vector<float> weights;   // [out, taps]
  std::vector<float> dense;     // [in, out]: all weights, where out is not below in
  bool is_identity() const { return in == out; }
};

// Tables and buffers that a thread keeps from sample to sample.
class ResampleScratch {
 public:
  // Valid until the next sample starts.
  const AxisWeights& axis(int64_t in, int64_t out, const ResampleRules& rules);
  void start_sample();
  // At least `count` elements, plus room for a vector.
  float* buffer(int64_t count);
  std::vector<float>& factors() { return factors_; }

 private:
  std::vector<std::unique_ptr<AxisWeights>> axes_;  // few: a search is faster than a map
  std::vector<float> buffer_;
  std::vector<float> factors_;
};

// What becomes of a value on the way out: value * scale[c] + shift[c]; empty: as it is.
struct ChannelScaling {
  std::span<const float> scale = {};
  std::span<const float> shift = {};
};

// Of one channel; all as they are where the scaling is empty.
inline float scale_of(const ChannelScaling& scaling, int64_t channel) {
  return scaling.scale.empty() ? 1.0f : scaling.scale[static_cast<size_t>(channel)];
}
inline float shift_of(const ChannelScaling& scaling, int64_t channel) {
  return scaling.shift.empty() ? 0.0f : scaling.shift[static_cast<size_t>(channel)];
}
// Throws Error where there is neither none nor one for each channel.
void check_scaling(const ChannelScaling& scaling, int64_t channels);

// Leaf l of the tree, resampled to p x p -> tokens + l p^2, of channel c a further c *
// channel_stride. Values stay within 0 to 255 before they are scaled.
void image_to_tokens(const ImageView& image, const PatchTree& tree, int64_t p,
                     const ResampleRules& rules, const ChannelScaling& scaling, float* tokens,
                     int64_t channel_stride, ResampleScratch& scratch);

// The same for a volume, to p x p x p, or of depth 1 to p x p; nothing is clipped. channel: only
// this one, with its own scale and shift; -1: all.
void volume_to_tokens(const VolumeValues& volume, const PatchTree& tree, int64_t channel, int64_t p,
                      const ResampleRules& rules, const ChannelScaling& scaling, float* tokens,
                      int64_t channel_stride, ResampleScratch& scratch);

// Every token back into its leaf: one channel, tokens [L, p^2 or p^3] -> out [D, H, W].
void tokens_to_volume(std::span<const float> tokens, const PatchTree& tree, int64_t p,
                      const ResampleRules& rules, float* out, ResampleScratch& scratch);

// The class nearest to the centre of each element. upstream_compatible: images as OpenCV's
// INTER_NEAREST (rounded down), volumes on the aligned grid.
// classes [D, H, W] -> tokens [L, p^2 or p^3].
void labels_to_tokens(std::span<const int32_t> classes, const PatchTree& tree, int64_t p,
                      bool upstream_compatible, std::span<int32_t> tokens);

}  // namespace fovea::data
