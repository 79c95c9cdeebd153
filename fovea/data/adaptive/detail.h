// Where the detail is, and its sums over any box.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/adaptive/canny.h"
#include "fovea/data/adaptive/config.h"
#include "fovea/data/adaptive/edge_direction.h"
#include "fovea/data/adaptive/grouped_sums.h"
#include "fovea/data/adaptive/image_rows.h"
#include "fovea/data/adaptive/smoothing.h"
#include "fovea/data/adaptive/tree.h"
#include "fovea/data/volume/volume_values.h"

namespace fovea::data {

// What is drawn for one sample.
struct DetailDraw {
  int64_t smoothing = 0;
  int64_t canny_low = 75;
  bool is_noise = false;

  // Side of the kernel that an image is blurred with; 1: not at all.
  int64_t blur_size() const { return smoothing > 1 ? smoothing : 1; }
};

// A smoothing and a threshold from those of the config, each with the same probability.
DetailDraw draw_detail(const AdaptivePatchingConfig& config, bool is_image, RandomStream& random);
// The same for every sample, for evaluation: the middle of each list, no noise.
DetailDraw middle_detail(const AdaptivePatchingConfig& config);

// Bytes that the detail of an image takes while it is built: two bits a pixel for edges, wherever
// they lead; for the other criteria four bytes for each cell of `min_leaf` pixels a side, of
// variance as often as there are channels and once more.
int64_t detail_bytes(ImageSize size, int64_t channels, const AdaptivePatchingConfig& config,
                     bool is_noise);

// Sums of detail over boxes of trees with the config's min_leaf; keeps its buffers from sample to
// sample. Edges of an image are kept as a bit each, wherever its rows come from; anything else is
// summed over the smallest parts that a tree can have.
class DetailMap : public NodeValues {
 public:
  // All channels of an image together, blurred with draw.blur_size() on the way; of floats on the
  // scale of value_range. `random` is read where the draw says noise, and may be null else. Throws
  // ConfigError for a criterion of volumes.
  void build(const patching::ImageRows& image, const AdaptivePatchingConfig& config,
             const DetailDraw& draw, RandomStream* random) {
    build(image, draw.blur_size(), config, draw, random);
  }
  void build(const patching::FieldRows& image, const AdaptivePatchingConfig& config,
             const DetailDraw& draw, RandomStream* random);
  // channel: only this one; -1: all together. A volume of depth 1 is taken as an image.
  void build(const VolumeValues& volume, int64_t channel, const AdaptivePatchingConfig& config,
             const DetailDraw& draw, RandomStream* random);

  int64_t value(const TreeBox& box) const override;

  // Of a volume, [D, H, W]: number of channels with an edge.
  const std::vector<uint8_t>& counts() const { return counts_; }

 private:
  enum class Kind { kSum, kNoise, kVariance };

  void build(const patching::ImageRows& image, int64_t blur_size,
             const AdaptivePatchingConfig& config, const DetailDraw& draw, RandomStream* random);
  uint64_t sum(size_t table, const TreeBox& box) const;
  void start_cells(VolumeSize size, int64_t channels, const AdaptivePatchingConfig& config,
                   size_t count);
  void finish_cells();
  void add_noise(const patching::ImageRows& image, RandomStream& random);
  void add_squares(const patching::ImageRows& slice, int64_t z);
  // values [D, H, W]
  template <class Value>
  void add_volume(const std::vector<Value>& values);
  // One channel, smoothed -> smooth_, and as bytes.
  void smooth_channel(const VolumeValues& volume, int64_t channel,
                      const AdaptivePatchingConfig& config, int64_t sigma);
  void find_volume_edges(const VolumeValues& volume, int64_t first, int64_t last,
                         const AdaptivePatchingConfig& config, const DetailDraw& draw);
  void note_directions(const uint64_t* bits, int64_t z, bool is_only_channel);

  Kind kind_ = Kind::kSum;
  bool has_bits_ = false;  // edges_ holds the sums, else cells_

  patching::BitSums edges_;  // of canny_'s bits
  std::vector<patching::CellSums> cells_;
  size_t num_tables_ = 1;      // of cells_: of the variance the squares first, then each channel
  std::vector<uint32_t> row_;  // of an image, on its way into cells
  patching::CannyScratch canny_;
  patching::FieldScratch field_;

  VolumeSize size_;
  std::vector<uint8_t> counts_;
  std::vector<uint16_t> gradients_;
  std::vector<uint8_t> bytes_;  // [D, H, W] of one channel
  std::vector<float> smooth_;   // [D, H, W] of one channel
  std::vector<patching::EdgeVoxel> edge_voxels_;
  std::vector<patching::EdgeVoxel> slice_edges_;  // of one slice of one of several channels
  patching::DirectionScratch directions_;
  std::vector<uint32_t> edge_at_;  // [D, H, W] of several channels: place in edge_voxels_, or none
  std::vector<int16_t> sobel_rows_;
  patching::SmoothingScratch smoothing_;
};

}  // namespace fovea::data
