// One data set's samples as rows of a batch: what shape they have after the transforms, and how a
// row is filled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/bad_samples.h"
#include "fovea/data/batch/adaptive_patch_filler.h"
#include "fovea/data/batch/image_patch_filler.h"
#include "fovea/data/dataset.h"
#include "fovea/data/loader_options.h"
#include "fovea/data/transforms/image/transform_scratch.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// What one thread keeps from sample to sample, so that steady state allocates nothing.
struct BatchScratch {
  Sample sample;
  TransformScratch transforms;
  VolumeScratch volumes;
  LabelMap mask;  // of an image, after the transforms
  Batch partner;  // one row, to mix with
  PatchFillerScratch patches;
  std::vector<float> planes;  // an image's planes
  std::vector<float> mixed;
  std::vector<BadSampleEvent> bad_samples;  // met by BatchMaker::fill, for the loader to take
  StageTimer timer;                         // used where transforms.timer() says so
};

// Immutable; `fill` may run in many threads at once on other rows.
class BatchFiller {
 public:
  // first: index of the set's first sample, which says the size where the transforms leave it open.
  // Throws ConfigError: transforms of images for a data set of volumes, samples that have not the
  // sides that are asked for; DataError: that sample cannot be read.
  BatchFiller(std::shared_ptr<const Dataset> dataset, SampleTransforms transforms, int64_t first,
              const LoaderOptions& options);

  // Of every sample after the transforms; of images the depth is 1, of packed ones the sides are 0.
  VolumeSize size() const { return size_; }

  // Sizes the buffers of `batch` for this many rows, its image_shape included.
  void open(Batch& batch, int64_t rows) const;
  // Reads and transforms sample `index` into a row. Throws DataError.
  void fill(Batch& batch, int64_t row, int64_t index, RandomStream random,
            BatchScratch& scratch) const;
  // A row that is computed like the others and counts for nothing.
  void clear(Batch& batch, int64_t row) const;

 private:
  const TransformPipeline* images() const;
  const VolumePipeline* volumes() const;
  std::optional<VolumeSize> fixed_size() const;
  VolumeSize size_of_samples() const;
  VolumeSize size_of_first() const;
  void make_image_patches(const LoaderOptions& options);
  void check_sides(std::optional<int> spatial_dims) const;
  int64_t in_chans() const;
  int64_t values() const { return in_chans() * size_.voxels(); }
  void check_size(const ImageView& image) const;
  void make_patches(const LoaderOptions& options);
  void fill_patches(Batch& batch, int64_t row, RandomStream random, BatchScratch& scratch) const;
  template <class T>
  void fill_image(std::span<T> out, int64_t index, RandomStream random,
                  BatchScratch& scratch) const;
  void read(int64_t index, BatchScratch& scratch) const;
  void fill_image_patches(Batch& batch, int64_t row, int64_t index, RandomStream random,
                          BatchScratch& scratch) const;
  void fill_volume(Batch& batch, int64_t row, RandomStream random, BatchScratch& scratch) const;
  void fill_mask(Batch& batch, int64_t row, BatchScratch& scratch) const;

  std::shared_ptr<const Dataset> dataset_;
  SampleTransforms transforms_;
  int64_t first_;
  PixelType pixel_type_;
  VolumeSize size_;
  std::optional<AdaptivePatchFiller> patches_;
  std::optional<ImagePatchFiller> image_patches_;
  bool is_flat_ = true;         // rows of [C, H, W] rather than [C, D, H, W]
  bool is_size_fixed_ = false;  // by the transforms, whatever the sample
};

}  // namespace fovea::data
