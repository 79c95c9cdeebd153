// What is in each batch and how it is filled; free of threads. The loader decides who fills which
// rows, and when.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/batch/batch_filler.h"
#include "fovea/data/dataset.h"
#include "fovea/data/loader_options.h"
#include "fovea/data/transforms/batch_mixup.h"

namespace fovea::data {

// Immutable; `fill` may run in many threads at once on disjoint rows.
class BatchMaker {
 public:
  // transforms: one pipeline for each set. Throws ConfigError: no batch in an epoch, a share that
  // cannot be; DataError: a set's first sample cannot be read where the transforms leave the size
  // open.
  BatchMaker(std::shared_ptr<const Dataset> dataset, std::vector<SampleTransforms> transforms,
             const LoaderOptions& options);

  const SampleOrder& order() const { return order_; }
  // See SampleOrder::append. Not while batches are filled.
  void append(const BatchSizeChange& change) { order_.append(change); }
  // From the next `open` on; not while batches are filled. Throws as the constructor does.
  void set_share(const BatchShare& share);
  // Throws Error where no batch starts at `position`.
  void check_position(int64_t position) const;
  // Where the batch after the one at `position` starts.
  int64_t next_position(int64_t position) const;
  // Sizes the buffers of `batch` for the batch at `position`; every element is written by `fill`.
  void open(int64_t position, Batch& batch) const;
  // Reads and transforms rows [first, last) of this process. Throws DataError naming the sample; or
  // goes by options.bad_samples and adds the samples to scratch.bad_samples.
  void fill(Batch& batch, int64_t first, int64_t last, BatchScratch& scratch) const;
  // What is left to do once all rows are filled: mixing them with each other.
  void finish(Batch& batch, BatchScratch& scratch) const;

 private:
  const BatchFiller& filler_of(int64_t set) const { return sets_[static_cast<size_t>(set)]; }
  // The set that this share's rows of a batch come from.
  int64_t set_of(const GlobalBatch& plan) const;
  void fill_row(Batch& batch, int64_t row, const SamplePlace& place, BatchScratch& scratch) const;
  void make_mixups();
  const BatchMixup& mixup_of(int64_t set) const { return mixups_[static_cast<size_t>(set)]; }
  bool has_all_partners() const;
  void mixup_with_partner(Batch& batch, int64_t row, const GlobalBatch& plan,
                          BatchScratch& scratch) const;
  int64_t index_of(const SamplePlace& place) const;
  void open_rows(Batch& batch, int64_t rows) const;
  void fill_up(Batch& batch, int64_t row) const;
  void check_label(int64_t label) const;
  // Fills a row whose sample, batch.indices[row], cannot be read. Throws DataError with the policy
  // kError, and where no substitute can be read either.
  void fill_in_place_of_bad(Batch& batch, int64_t row, const SamplePlace& place,
                            const DataError& error, BatchScratch& scratch) const;

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  SampleOrder order_;
  std::vector<int64_t> set_starts_;  // [sets + 1] index of each set's first sample, and the end
  std::vector<BatchFiller> sets_;
  std::vector<BatchMixup> mixups_;  // [sets], or empty: nothing is mixed
  bool has_labels_ = false;
};

}  // namespace fovea::data
