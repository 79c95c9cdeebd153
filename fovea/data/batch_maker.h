// What is in each batch and how it is filled; free of threads. The loader decides who fills which
// rows, and when.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/image_view.h"
#include "fovea/data/loader.h"
#include "fovea/data/transforms/geometry.h"

namespace fovea::data {

class Permutation;

// What one thread keeps from sample to sample, so that steady state allocates nothing.
struct BatchScratch {
  Sample sample;
  TransformScratch transforms;
};

// Immutable; `fill` may run in many threads at once on disjoint rows.
class BatchMaker {
 public:
  // Throws ConfigError: no batch in an epoch, a shard that cannot be; DataError: sample 0 cannot be
  // read where the transforms leave the size open.
  BatchMaker(std::shared_ptr<const Dataset> dataset,
             std::shared_ptr<const TransformPipeline> transforms, const LoaderOptions& options);

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
  void fill_row(Batch& batch, int64_t row, int64_t index, BatchScratch& scratch) const;
  void check_size(const Image& image) const;
  template <class T>
  void transform(const Sample& sample, RandomStream random, std::span<T> out,
                 TransformScratch& scratch) const;

  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const TransformPipeline> transforms_;
  LoaderOptions options_;
  int64_t samples_per_epoch_ = 0;
  ImageSize image_size_;        // of every image after the transforms
  bool is_size_fixed_ = false;  // by the transforms, whatever the image
  bool has_labels_ = false;
};

}  // namespace fovea::data
