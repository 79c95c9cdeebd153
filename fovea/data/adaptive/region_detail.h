// Where the detail of a large image is, without a number for each pixel in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/adaptive/canny.h"
#include "fovea/data/adaptive/config.h"
#include "fovea/data/adaptive/detail.h"
#include "fovea/data/adaptive/grouped_sums.h"
#include "fovea/data/adaptive/tree.h"
#include "fovea/data/large_image/region_source.h"

namespace fovea::data::patching {

// Bytes that the detail of an image takes while it is built: two bits a pixel for edges, wherever
// they lead; for the other criteria four bytes for each cell of `min_leaf` pixels a side, of
// variance as often as there are channels and once more.
int64_t region_detail_bytes(const RegionFormat& format, int64_t channels,
                            const AdaptivePatchingConfig& config, bool is_noise);

// The values that DetailMap gives of the same image and draw, for boxes of trees with the config's
// min_leaf.
class RegionDetail : public NodeValues {
 public:
  // channel: only this one; -1: all together. Reads the image once, in bands of band_bytes. Throws
  // ConfigError: a criterion that is for volumes; DataError: the image cannot be read.
  void build(const RegionSource& source, int64_t channel, const AdaptivePatchingConfig& config,
             const DetailDraw& draw, RandomStream* random, int64_t band_bytes);
  int64_t value(const Box& box) const override;

 private:
  enum class Kind { kEdges, kGradients, kNoise, kVariance };

  Kind kind_ = Kind::kEdges;
  CannyScratch canny_;  // holds the edges
  BitSums edges_;
  std::vector<CellSums> cells_;  // of variance: the squares first, then each channel
};

}  // namespace fovea::data::patching
