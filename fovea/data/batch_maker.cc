#include "fovea/data/batch_maker.h"

#include <algorithm>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/data/permutation.h"
#include "fovea/data/transforms/pipeline.h"

namespace fovea::data {

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset,
                       std::shared_ptr<const TransformPipeline> transforms,
                       const LoaderOptions& options)
    : dataset_(std::move(dataset)), transforms_(std::move(transforms)), options_(options) {
  FOVEA_CHECK(dataset_ && transforms_, "a loader needs a data set and transforms");
  const int64_t global_batch = options_.global_batch_size;
  if (global_batch < 1)
    fail<ConfigError>("global_batch_size={}; expected a number above 0", global_batch);
  const Shard& shard = options_.shard;
  FOVEA_CHECK(shard.count > 0 && shard.index >= 0 && shard.index < shard.count,
              "shard {} of {} does not exist", shard.index, shard.count);
  const int64_t size = dataset_->size();
  if (size == 0) fail<DataError>("the data set is empty; check its path");
  samples_per_epoch_ = options_.drop_last ? size / global_batch * global_batch : size;
  if (samples_per_epoch_ == 0) {
    fail<ConfigError>(
        "global_batch_size={} with drop_last, but the data set has {} samples, so no batch is ever "
        "full; "
        "use a smaller batch or drop_last: false",
        global_batch, size);
  }
  has_labels_ = dataset_->num_classes() > 0;
  std::optional<ImageSize> fixed = transforms_->output_size(std::nullopt);
  is_size_fixed_ = fixed.has_value();
  if (!fixed) {
    Sample sample;
    dataset_->read(0, sample);
    fixed = transforms_->output_size(ImageSize{sample.image.height, sample.image.width});
  }
  image_size_ = *fixed;
}

int64_t BatchMaker::batches_per_epoch() const {
  return (samples_per_epoch_ + options_.global_batch_size - 1) / options_.global_batch_size;
}

void BatchMaker::check_position(int64_t position) const {
  FOVEA_CHECK(position >= 0 && position % samples_per_epoch_ % options_.global_batch_size == 0,
              "position={}: no batch starts there with {} samples an epoch and "
              "global_batch_size={}; go on with the "
              "data set and batch size that the position was saved with",
              position, samples_per_epoch_, options_.global_batch_size);
}

int64_t BatchMaker::next_position(int64_t position) const {
  const int64_t left = samples_per_epoch_ - position % samples_per_epoch_;
  return position + std::min(left, options_.global_batch_size);
}

void BatchMaker::open(int64_t position, Batch& batch) const {
  const int64_t global_rows = next_position(position) - position;
  const Shard& shard = options_.shard;
  const int64_t rows =
      std::max<int64_t>(global_rows - shard.index + shard.count - 1, 0) / shard.count;
  batch.position = position;
  batch.epoch = position / samples_per_epoch_;
  batch.image_shape = {rows, transforms_->in_chans(), image_size_.height, image_size_.width};
  const int64_t values = transforms_->in_chans() * image_size_.height * image_size_.width;
  const bool has_bytes = options_.pixel_type == PixelType::kUint8;
  batch.images.resize(has_bytes ? 0 : static_cast<size_t>(rows * values));
  batch.bytes.resize(has_bytes ? static_cast<size_t>(rows * values) : 0);
  batch.labels.resize(has_labels_ ? static_cast<size_t>(rows) : 0);
  batch.indices.resize(static_cast<size_t>(rows));
  batch.rows.resize(static_cast<size_t>(rows));
}

void BatchMaker::fill(Batch& batch, int64_t first, int64_t last, BatchScratch& scratch) const {
  const Permutation order(dataset_->size(), options_.seed, batch.epoch);
  const int64_t epoch_offset = batch.position % samples_per_epoch_;
  for (int64_t row = first; row < last; ++row) {
    const int64_t global_row = options_.shard.index + row * options_.shard.count;
    const int64_t place = epoch_offset + global_row;
    const int64_t index = options_.shuffle ? order(place) : place;
    batch.rows[row] = global_row;
    batch.indices[row] = index;
    try {
      fill_row(batch, row, index, scratch);
    } catch (const DataError& error) {
      const std::string name = dataset_->describe(index);
      const std::string message = error.what();
      if (message.find(name) != std::string::npos) throw;
      throw DataError(name + ": " + message);
    }
  }
}

void BatchMaker::check_size(const Image& image) const {
  const ImageSize size = *transforms_->output_size(ImageSize{image.height, image.width});
  if (size == image_size_) return;
  fail<DataError>(
      "an image of {}x{} pixels, {}x{} after the transforms, but {} gave {}x{}; images of a "
      "batch must "
      "have one size: add `resize: [height, width]` or a crop to the transforms",
      image.height, image.width, size.height, size.width, dataset_->describe(0), image_size_.height,
      image_size_.width);
}

template <class T>
void BatchMaker::transform(const Sample& sample, RandomStream random, std::span<T> out,
                           TransformScratch& scratch) const {
  if (sample.encoded.bytes.empty()) {
    check_size(sample.image);
    transforms_->apply(sample.image, random, out, scratch);
  } else {
    transforms_->apply_file(sample.encoded.bytes, random, out, scratch);
  }
}

void BatchMaker::fill_row(Batch& batch, int64_t row, int64_t index, BatchScratch& scratch) const {
  Sample& sample = scratch.sample;
  if (is_size_fixed_) {
    dataset_->read_undecoded(index, sample);
  } else {
    sample.encoded.bytes = {};
    dataset_->read(index, sample);
  }
  const auto values =
      static_cast<size_t>(transforms_->in_chans() * image_size_.height * image_size_.width);
  const size_t first = static_cast<size_t>(row) * values;
  const RandomStream random = augmentation_stream(options_.seed, batch.epoch, index);
  if (options_.pixel_type == PixelType::kUint8) {
    transform(sample, random, std::span(batch.bytes).subspan(first, values), scratch.transforms);
  } else {
    transform(sample, random, std::span(batch.images).subspan(first, values), scratch.transforms);
  }
  if (has_labels_) batch.labels[row] = sample.label;
}

}  // namespace fovea::data
