// The rows of a large image as edges are sought in them and patches are cut from them.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/adaptive/config.h"
#include "fovea/data/adaptive/smoothing.h"
#include "fovea/data/large_image/region_source.h"

namespace fovea::data::patching {

// Rows of bytes, channels interleaved. An image of bytes as it is; any other kind as
// AdaptivePatcher takes a volume of depth 1: as float, blurred, then on a scale of bytes by the
// config's value_range.
class DetailRows {
 public:
  // channel: only this one; -1: all. blur_size is for images that are not made of bytes.
  DetailRows(const RegionSource& source, int64_t channel, const AdaptivePatchingConfig& config,
             int64_t blur_size, int64_t band_bytes);
  int64_t channels() const { return last_ - first_; }
  // Row y [W, C]; valid until the next call, in ascending order.
  const uint8_t* row(int64_t y);

 private:
  const float* blurred_along(int64_t y, int64_t channel);
  void load(int64_t y);

  const RegionSource& source_;
  const AdaptivePatchingConfig& config_;
  RegionRows rows_;
  int64_t first_ = 0;
  int64_t last_ = 0;
  int64_t blur_size_ = 1;
  int64_t loaded_ = 0;
  std::vector<float> values_;  // [W, all channels]
  std::vector<float> plane_;   // [W] of one channel
  std::vector<float> ring_;    // [kRowRing, C, W], blurred along themselves
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> out_;
};

}  // namespace fovea::data::patching
