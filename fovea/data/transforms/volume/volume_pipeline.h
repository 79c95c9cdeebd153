// The transforms of a recipe as one function from a stored volume to the model's input.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/dataset.h"
#include "fovea/data/transforms/volume/volume_transform.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// Immutable after construction: one pipeline serves all threads, each with its own scratch. An
// image is taken as a volume of depth 1 whose values are byte / 255.
class VolumePipeline {
 public:
  // in_chans: channels that volumes must have. Throws ConfigError where it is not above 0,
  // or a transform has values that cannot be.
  VolumePipeline(std::vector<VolumeTransformConfig> transforms, int64_t in_chans);

  int64_t in_chans() const { return in_chans_; }
  // The size that comes out of volumes of size `in`; nullopt in: of any volume, and nullopt out:
  // they differ.
  std::optional<VolumeSize> output_size(std::optional<VolumeSize> in) const;

  // All transforms, of the sample's volume, or of its image where it has no volume; the result's
  // windows look at the sample or at `scratch`, until the next call. Throws DataError: values that
  // are not finite (how many, and the first one), channels other than in_chans, a mask of another
  // size, and what the transforms refuse.
  const VolumeItem& run(const Sample& sample, RandomStream random, VolumeScratch& scratch) const;

  // The same, and writes [C, D, H, W] floats and, where `mask` is not empty, [D, H, W] classes.
  // Throws DataError where the result is not as large as `size`, or has no mask to write.
  void apply(const Sample& sample, RandomStream random, VolumeSize size, std::span<float> out,
             std::span<int32_t> mask, VolumeScratch& scratch) const;

 private:
  std::vector<VolumeTransformConfig> transforms_;
  int64_t in_chans_;
};

// Throws DataError with the number of values that are NaN or infinite and the place of the first.
void check_finite(const Volume& volume);

// [H, W, C] bytes as [C, 1, H, W] floats from 0 to 1; keeps the buffer of `volume`.
void image_to_volume(const Image& image, Volume& volume);

}  // namespace fovea::data
