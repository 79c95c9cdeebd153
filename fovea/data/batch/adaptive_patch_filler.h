// Adaptive patches of the rows of a batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/batch.h"
#include "fovea/data/loader_options.h"

namespace fovea::data {

// What one thread keeps from sample to sample.
struct PatchFillerScratch {
  std::vector<uint8_t> planes;  // [C, H, W] of an image, before normalize
  Image image;                  // the same, [H, W, C]
  PatchingScratch patching;
};

// Immutable. Images are cut by their bytes, as UCF-VIT does, and normalised after that; volumes by
// their values after the transforms, on a scale of adaptive_patching.value_range.
class AdaptivePatchFiller {
 public:
  // mean, std: of an image's channels in [0, 1]; empty for volumes. Throws ConfigError.
  AdaptivePatchFiller(const PatchingOptions& options, std::span<const float> mean,
                      std::span<const float> std);

  // Sizes batch.patches for the rows that batch.image_shape tells of.
  void open(Batch& batch) const;
  // scratch.planes hold the image of `size`; writes its floats into `pixels`, [C, H, W], and its
  // patches into the row.
  void fill_image(Batch& batch, int64_t row, VolumeSize size, std::span<float> pixels,
                  RandomStream random, PatchFillerScratch& scratch) const;
  // values: [C, D, H, W], after the transforms.
  void fill_volume(Batch& batch, int64_t row, VolumeSize size, std::span<const float> values,
                   RandomStream random, PatchFillerScratch& scratch) const;
  // The same of an image of bytes that does not fit into memory, as an evaluation cuts it; leaves
  // batch.images alone. Throws as AdaptivePatcher does.
  void fill_large(Batch& batch, int64_t row, const RegionSource& image,
                  const OutOfCoreOptions& options) const;
  // A row of padding.
  void clear(Batch& batch, int64_t row) const;

 private:
  void fill_labels(Batch& batch, int64_t row) const;

  AdaptivePatcher patcher_;
  bool is_random_;
  std::vector<float> scale_, shift_;  // [C] from a byte to a normalised value
};

// Volumes in memory as a batch with patches: values [B, C, D, H, W], or [B, C, H, W] for slices,
// after the transforms; shape: theirs. As an evaluation cuts them. masks: classes [B, D, H, W], or
// empty.
Batch cut_volumes(const AdaptivePatchingConfig& config, std::span<const float> values,
                  const std::vector<int64_t>& shape, std::vector<int32_t> masks = {});

}  // namespace fovea::data
