// What is in each batch and how it is filled; free of threads. The loader decides who fills which
// rows, and when.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/image_view.h"
#include "fovea/data/loader.h"
#include "fovea/data/transforms/geometry.h"
#include "fovea/data/transforms/volume_view.h"

namespace fovea::data {

class Permutation;

// What one thread keeps from sample to sample, so that steady state allocates nothing.
struct BatchScratch {
  Sample sample;
  TransformScratch transforms;
  VolumeScratch volumes;
};

// Immutable; `fill` may run in many threads at once on disjoint rows.
class BatchMaker {
 public:
  // Throws ConfigError: no batch in an epoch, a shard that cannot be, volumes with transforms of
  // images; DataError: sample 0 cannot be read where the transforms leave the size open.
  BatchMaker(std::shared_ptr<const Dataset> dataset, SampleTransforms transforms,
             const LoaderOptions& options);

  int64_t samples_per_epoch() const { return samples_per_epoch_; }
  int64_t batches_per_epoch() const;
  // Throws Error where no batch starts at `position`.
  void check_position(int64_t position) const;
  // Where the batch after the one at `position` starts.
  int64_t next_position(int64_t position) const;
  // Sizes the buffers of `batch` for the batch at `position`; every element is written by `fill`.
  void open(int64_t position, Batch& batch) const;
  // Reads and transforms rows [first, last) of this process. Throws DataError naming the sample.
  void fill(Batch& batch, int64_t first, int64_t last, BatchScratch& scratch) const;

 private:
  VolumeSize size_of_images() const;
  VolumeSize size_of_volumes() const;
  void fill_row(Batch& batch, int64_t row, int64_t index, BatchScratch& scratch) const;
  void fill_volume(Batch& batch, int64_t row, int64_t index, BatchScratch& scratch) const;

  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const TransformPipeline> transforms_;  // either these
  std::shared_ptr<const VolumePipeline> volumes_;        // or these
  LoaderOptions options_;
  int64_t samples_per_epoch_ = 0;
  VolumeSize sample_size_;  // of every sample after the transforms; images: depth 1
  bool has_labels_ = false;
};

}  // namespace fovea::data
