// Where the detail is: a map over the image, and its sums over any box.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/adaptive/canny.h"
#include "fovea/data/adaptive/config.h"
#include "fovea/data/adaptive/edge_direction.h"
#include "fovea/data/adaptive/integral.h"
#include "fovea/data/adaptive/smoothing.h"
#include "fovea/data/adaptive/tree.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

// What is drawn for one sample.
struct DetailDraw {
  int64_t smoothing = 0;
  int64_t canny_low = 75;
  bool is_noise = false;
};

// A smoothing and a threshold from those of the config, each with the same probability.
DetailDraw draw_detail(const AdaptivePatchingConfig& config, bool is_image, RandomStream& random);
// The same for every sample, for evaluation: the middle of each list, no noise.
DetailDraw middle_detail(const AdaptivePatchingConfig& config);

// Sums of detail over boxes; keeps its buffers from sample to sample.
class DetailMap : public NodeValues {
 public:
  // All channels together. `random` is read where the draw says noise, and may be null else. Throws
  // ConfigError where the criterion does not fit the sample.
  void build(const ImageView& image, const AdaptivePatchingConfig& config, const DetailDraw& draw,
             RandomStream* random);
  // channel: only this one; -1: all together. A volume of depth 1 is taken as an image.
  void build(const Volume& volume, int64_t channel, const AdaptivePatchingConfig& config,
             const DetailDraw& draw, RandomStream* random);

  int64_t value(const Box& box) const override;

  // The map itself, [D, H, W]: number of channels with an edge (criteria of edges), or the
  // gradient.
  const std::vector<uint8_t>& counts() const { return counts_; }
  const std::vector<uint16_t>& gradients() const { return gradients_; }
  VolumeSize size() const { return size_; }

 private:
  enum class Kind { kCounts, kGradients, kNoise, kVariance };

  void build_noise(RandomStream* random);
  // bytes_ [C, D, H, W] -> the sums of the variance.
  void build_variance(int64_t channels);
  // One channel, smoothed -> smooth_, and as bytes.
  void smooth_channel(const Volume& volume, int64_t channel, const AdaptivePatchingConfig& config,
                      int64_t sigma, uint8_t* bytes);
  // Channels of a volume of depth 1, blurred -> image_.
  void flatten(const Volume& volume, int64_t first, int64_t last,
               const AdaptivePatchingConfig& config, int64_t blur_size);
  void build_volume_edges(const Volume& volume, int64_t first, int64_t last,
                          const AdaptivePatchingConfig& config, const DetailDraw& draw);
  void note_directions(const uint64_t* bits, int64_t z, bool is_only_channel);

  Kind kind_ = Kind::kCounts;
  VolumeSize size_;
  std::vector<uint8_t> counts_;
  std::vector<uint16_t> gradients_;
  std::vector<uint32_t> squares_;
  patching::IntegralVolume<uint32_t> count_sums_;
  patching::IntegralVolume<uint64_t> weight_sums_;  // of gradients, noise, or squared values
  std::vector<patching::IntegralVolume<uint64_t>> channel_sums_;

  // Between the steps.
  Image image_;                 // a volume of depth 1
  std::vector<uint8_t> bytes_;  // [C, D, H, W] or one channel of them
  std::vector<float> smooth_;   // [D, H, W] of one channel
  std::vector<patching::EdgeVoxel> edges_;
  std::vector<patching::EdgeVoxel> slice_edges_;  // of one slice of one of several channels
  patching::DirectionScratch directions_;
  std::vector<uint32_t> edge_at_;  // [D, H, W] of several channels: place in edges_, or none
  std::vector<int16_t> sobel_rows_;
  patching::CannyScratch canny_;
  patching::SmoothingScratch smoothing_;
};

}  // namespace fovea::data
