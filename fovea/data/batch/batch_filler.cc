#include "fovea/data/batch/batch_filler.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/sample_geometry.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "fovea/files/mapped_file.h"

namespace fovea::data {
namespace {

constexpr uint32_t kSampleDraws = 2;  // of a data set's own; patching has one of its own too

VolumeSize as_volume(ImageSize size) { return {1, size.height, size.width}; }

}  // namespace

BatchFiller::BatchFiller(std::shared_ptr<const Dataset> dataset, SampleTransforms transforms,
                         int64_t first, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      transforms_(std::move(transforms)),
      first_(first),
      pixel_type_(options.pixel_type) {
  FOVEA_CHECK(images() != nullptr || volumes() != nullptr, "a loader needs transforms");
  if (images() != nullptr && dataset_->form() == SampleForm::kVolume) {
    fail<ConfigError>("a data set of volumes with transforms of images; use those of volumes");
  }
  if (volumes() != nullptr && pixel_type_ == PixelType::kUint8) {
    fail<ConfigError>("volumes are floats; bytes are for images only");
  }
  if (options.packed_patch_size) make_image_patches(options);
  is_size_fixed_ = !image_patches_ && fixed_size().has_value();
  size_ = size_of_samples();
  is_flat_ = images() != nullptr || options.spatial_dims == 2;
  check_sides(options.spatial_dims);
  if (options.patching) make_patches(options);
}

void BatchFiller::make_image_patches(const LoaderOptions& options) {
  if (dataset_->has_masks()) {
    fail<ConfigError>(
        "packed images with masks, which have one size in a batch; use the model's patching: grid");
  }
  const auto* chosen = std::get_if<std::shared_ptr<const TransformPipeline>>(&transforms_);
  image_patches_.emplace(chosen != nullptr ? *chosen : nullptr, options);
}

void BatchFiller::make_patches(const LoaderOptions& options) {
  if (pixel_type_ == PixelType::kUint8) {
    fail<ConfigError>("adaptive_patching with batches of bytes; its tokens are floats");
  }
  if (options.mixup && options.mixup->is_on()) {
    fail<ConfigError>(
        "adaptive_patching with mixup or cutmix, which change images after their patches are cut; "
        "set data.mixup: {{mixup_alpha: 0, cutmix_alpha: 0}}");
  }
  const bool has_images = images() != nullptr;
  patches_.emplace(*options.patching, has_images ? std::span(images()->mean()) : std::span<float>(),
                   has_images ? std::span(images()->std()) : std::span<float>());
}

void BatchFiller::check_sides(std::optional<int> spatial_dims) const {
  if (images() != nullptr && spatial_dims == 3) {
    fail<ConfigError>(
        "the model takes volumes [D, H, W], but {} is an image; give model.img_size two sides",
        dataset_->describe(first_));
  }
  if (!is_flat_ || size_.depth == 1) return;
  fail<ConfigError>(
      "the model takes images [H, W], but {} is a volume of {}x{}x{} after the transforms; give "
      "model.img_size and model.patch_size three sides, or cut volumes into slices with "
      "data.tiling: {{tile_size: [height, width], two_d: true}}",
      dataset_->describe(first_), size_.depth, size_.height, size_.width);
}

const TransformPipeline* BatchFiller::images() const {
  const auto* chosen = std::get_if<std::shared_ptr<const TransformPipeline>>(&transforms_);
  return chosen != nullptr ? chosen->get() : nullptr;
}

const VolumePipeline* BatchFiller::volumes() const {
  const auto* chosen = std::get_if<std::shared_ptr<const VolumePipeline>>(&transforms_);
  return chosen != nullptr ? chosen->get() : nullptr;
}

std::optional<VolumeSize> BatchFiller::fixed_size() const {
  if (volumes() != nullptr) return volumes()->output_size(std::nullopt);
  const auto size = images()->output_size(std::nullopt);
  return size ? std::optional(as_volume(*size)) : std::nullopt;
}

VolumeSize BatchFiller::size_of_samples() const {
  if (image_patches_) return {.depth = 1, .height = 0, .width = 0};
  const auto fixed = fixed_size();
  return fixed ? *fixed : size_of_first();
}

VolumeSize BatchFiller::size_of_first() const {
  Sample sample;
  read_decoded(*dataset_, first_, sample);
  if (volumes() != nullptr) {
    VolumeScratch scratch;
    return size_of(volumes()->run(sample, augmentation_stream(0, 0, 0), scratch).values.size);
  }
  const auto size = images()->output_size(ImageView(sample.image()).size());
  if (!size) {
    fail<ConfigError>(
        "the transforms draw another size for each image; images of a batch must have one size: "
        "add a crop, or give the model patching: packed");
  }
  return as_volume(*size);
}

int64_t BatchFiller::in_chans() const {
  return volumes() != nullptr ? volumes()->in_chans() : images()->in_chans();
}

void BatchFiller::open(Batch& batch, int64_t rows) const {
  batch.image_shape = {rows, in_chans(), size_.height, size_.width};
  if (!is_flat_) batch.image_shape.insert(batch.image_shape.begin() + 2, size_.depth);
  const bool has_bytes = pixel_type_ == PixelType::kUint8;
  batch.images.resize(has_bytes ? 0 : static_cast<size_t>(rows * values()));
  batch.bytes.resize(has_bytes ? static_cast<size_t>(rows * values()) : 0);
  batch.byte_steps.mixups.clear();  // of a batch that had the buffers before
  if (has_bytes) {
    batch.byte_steps.mean = images()->mean();
    batch.byte_steps.std = images()->std();
  }
  batch.masks.resize(dataset_->has_masks() ? static_cast<size_t>(rows * size_.voxels()) : 0);
  if (patches_) patches_->open(batch);
  if (image_patches_) image_patches_->open(batch);
}

void BatchFiller::check_size(const ImageView& image) const {
  const ImageSize size = *images()->output_size(image.size());
  if (as_volume(size) == size_) return;
  fail<DataError>(
      "an image of {}x{} pixels, {}x{} after the transforms, but {} gave {}x{}; images of a "
      "batch must have one size: add `resize: [height, width]` or a crop to the transforms, or "
      "give the model patching: packed",
      image.height, image.width, size.height, size.width, dataset_->describe(first_), size_.height,
      size_.width);
}

// Where the size is open the whole image is decoded, so that its size is known first.
void BatchFiller::read(int64_t index, BatchScratch& scratch) const {
  const StageScope scope(scratch.transforms.timer(), Stage::kRead);
  Sample& sample = scratch.sample;
  dataset_->read(index, sample);
  if (!is_size_fixed_ && sample.is<EncodedImage>()) decode(sample);
}

void BatchFiller::fill_image_patches(Batch& batch, int64_t row, int64_t index, RandomStream random,
                                     BatchScratch& scratch) const {
  read(index, scratch);
  image_patches_->fill(batch, row, view_of(scratch.sample), random, scratch.transforms,
                       scratch.planes);
}

template <class T>
void BatchFiller::fill_image(std::span<T> out, int64_t index, RandomStream random,
                             BatchScratch& scratch) const {
  read(index, scratch);
  const Sample& sample = scratch.sample;
  if (sample.is<EncodedImage>()) {
    const auto& file = sample.as<EncodedImage>().bytes;
    return images()->apply_file(file, random, out, scratch.transforms);
  }
  const ImageView image = view_of(sample);
  check_size(image);
  images()->apply(image, random, out, scratch.transforms);
}

void BatchFiller::fill_volume(Batch& batch, int64_t row, RandomStream random,
                              BatchScratch& scratch) const {
  const StageScope scope(scratch.transforms.timer(), Stage::kAugment);
  const auto voxels = static_cast<size_t>(size_.voxels());
  const auto floats = static_cast<size_t>(values());
  const auto out = std::span(batch.images).subspan(static_cast<size_t>(row) * floats, floats);
  std::span<int32_t> mask;
  if (!batch.masks.empty()) {
    mask = std::span(batch.masks).subspan(static_cast<size_t>(row) * voxels, voxels);
  }
  volumes()->apply(scratch.sample, random, size_, out, mask, scratch.volumes);
}

void BatchFiller::fill_mask(Batch& batch, int64_t row, BatchScratch& scratch) const {
  if (batch.masks.empty()) return;
  apply_geometry(scratch.transforms.geometry, scratch.sample.mask, scratch.mask);
  const auto& classes = scratch.mask.classes;
  FOVEA_CHECK(static_cast<int64_t>(classes.size()) == size_.voxels(),
              "a mask of {} pixels for an image of {}", classes.size(), size_.voxels());
  std::copy(classes.begin(), classes.end(), batch.masks.begin() + row * size_.voxels());
}

void BatchFiller::fill_patches(Batch& batch, int64_t row, RandomStream random,
                               BatchScratch& scratch) const {
  const StageScope scope(scratch.transforms.timer(), Stage::kAugment);
  const auto count = static_cast<size_t>(values());
  const auto pixels = std::span(batch.images).subspan(static_cast<size_t>(row) * count, count);
  if (images() != nullptr) {
    patches_->fill_image(batch, row, size_, pixels, random, scratch.patches);
  } else {
    patches_->fill_volume(batch, row, size_, pixels, random, scratch.patches);
  }
}

void BatchFiller::fill(Batch& batch, int64_t row, int64_t index, RandomStream random,
                       BatchScratch& scratch) const {
  const MappedReads reads;
  scratch.sample.random = random.fork(kSampleDraws);
  const auto count = static_cast<size_t>(values());
  const size_t first = static_cast<size_t>(row) * count;
  if (volumes() != nullptr) {
    {
      const StageScope scope(scratch.transforms.timer(), Stage::kRead);
      read_decoded(*dataset_, index, scratch.sample);
    }
    fill_volume(batch, row, random, scratch);
  } else if (image_patches_) {
    fill_image_patches(batch, row, index, random, scratch);
  } else if (pixel_type_ == PixelType::kUint8) {
    fill_image(std::span(batch.bytes).subspan(first, count), index, random, scratch);
    fill_mask(batch, row, scratch);
  } else if (patches_) {
    scratch.patches.planes.resize(count);
    fill_image(std::span(scratch.patches.planes), index, random, scratch);
    fill_mask(batch, row, scratch);
  } else {
    fill_image(std::span(batch.images).subspan(first, count), index, random, scratch);
    fill_mask(batch, row, scratch);
  }
  if (patches_) fill_patches(batch, row, random, scratch);
  if (!batch.labels.empty()) batch.labels[row] = scratch.sample.label;
  reads.check([&] { return dataset_->describe(index); });
}

void BatchFiller::clear(Batch& batch, int64_t row) const {
  const int64_t count = values(), voxels = size_.voxels();
  if (!batch.images.empty()) std::fill_n(batch.images.begin() + row * count, count, 0.0f);
  if (!batch.bytes.empty()) std::fill_n(batch.bytes.begin() + row * count, count, uint8_t{0});
  if (!batch.masks.empty()) std::fill_n(batch.masks.begin() + row * voxels, voxels, -1);
  if (!batch.labels.empty()) batch.labels[row] = 0;
  if (patches_) patches_->clear(batch, row);
  if (image_patches_) image_patches_->clear(batch, row);
}

}  // namespace fovea::data
