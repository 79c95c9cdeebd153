#include "fovea/data/batch_maker.h"

#include <algorithm>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/data/permutation.h"
#include "fovea/data/transforms/pipeline.h"
#include "fovea/data/transforms/volume_pipeline.h"

namespace fovea::data {

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, SampleTransforms transforms,
                       const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  if (auto* images = std::get_if<0>(&transforms)) transforms_ = std::move(*images);
  if (auto* volumes = std::get_if<1>(&transforms)) volumes_ = std::move(*volumes);
  FOVEA_CHECK(dataset_ && (transforms_ || volumes_), "a loader needs a data set and transforms");
  if (dataset_->form() == SampleForm::kVolume && !volumes_) {
    fail<ConfigError>("a data set of volumes with transforms of images; use those of volumes");
  }
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
  sample_size_ = volumes_ ? size_of_volumes() : size_of_images();
}

VolumeSize BatchMaker::size_of_images() const {
  std::optional<ImageSize> fixed = transforms_->output_size(std::nullopt);
  if (!fixed) {
    Sample sample;
    dataset_->read(0, sample);
    fixed = transforms_->output_size(ImageSize{sample.image.height, sample.image.width});
  }
  return {1, fixed->height, fixed->width};
}

VolumeSize BatchMaker::size_of_volumes() const {
  if (const auto fixed = volumes_->output_size(std::nullopt)) return *fixed;
  Sample sample;
  VolumeScratch scratch;
  dataset_->read(0, sample);
  const RandomStream random = augmentation_stream(options_.seed, 0, 0);
  return size_of(volumes_->run(sample, random, scratch).values.size);
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
  const int64_t in_chans = volumes_ ? volumes_->in_chans() : transforms_->in_chans();
  batch.image_shape = {rows, in_chans, sample_size_.height, sample_size_.width};
  if (volumes_) batch.image_shape.insert(batch.image_shape.begin() + 2, sample_size_.depth);
  batch.images.resize(static_cast<size_t>(rows * in_chans * sample_size_.voxels()));
  const bool has_masks = volumes_ && dataset_->has_masks();
  batch.masks.resize(has_masks ? static_cast<size_t>(rows * sample_size_.voxels()) : 0);
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

void BatchMaker::fill_row(Batch& batch, int64_t row, int64_t index, BatchScratch& scratch) const {
  dataset_->read(index, scratch.sample);
  if (has_labels_) batch.labels[row] = scratch.sample.label;
  if (volumes_) return fill_volume(batch, row, index, scratch);
  const Image& image = scratch.sample.image;
  const ImageSize size = *transforms_->output_size(ImageSize{image.height, image.width});
  if (size != ImageSize{sample_size_.height, sample_size_.width}) {
    fail<DataError>(
        "an image of {}x{} pixels, {}x{} after the transforms, but {} gave {}x{}; images of a "
        "batch must "
        "have one size: add `resize: [height, width]` or a crop to the transforms",
        image.height, image.width, size.height, size.width, dataset_->describe(0),
        sample_size_.height, sample_size_.width);
  }
  const int64_t floats = transforms_->in_chans() * size.height * size.width;
  const std::span<float> out(batch.images.data() + row * floats, static_cast<size_t>(floats));
  transforms_->apply(image, augmentation_stream(options_.seed, batch.epoch, index), out,
                     scratch.transforms);
}

void BatchMaker::fill_volume(Batch& batch, int64_t row, int64_t index,
                             BatchScratch& scratch) const {
  const int64_t voxels = sample_size_.voxels();
  const int64_t floats = volumes_->in_chans() * voxels;
  std::span<float> out(batch.images.data() + row * floats, static_cast<size_t>(floats));
  std::span<int32_t> mask;
  if (!batch.masks.empty()) mask = {batch.masks.data() + row * voxels, static_cast<size_t>(voxels)};
  volumes_->apply(scratch.sample, augmentation_stream(options_.seed, batch.epoch, index),
                  sample_size_, out, mask, scratch.volumes);
}

}  // namespace fovea::data
