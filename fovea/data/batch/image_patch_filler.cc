// B batch, C channels, H W sides of an image, P patch side, M room for patches.
#include "fovea/data/batch/image_patch_filler.h"

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/resize_to_patches.h"

namespace fovea::data {
namespace {

void check_packed_options(const LoaderOptions& options) {
  if (options.pixel_type == PixelType::kUint8) {
    fail<ConfigError>("packed images with batches of bytes; their patches are floats");
  }
  if (options.mixup && options.mixup->is_on()) {
    fail<ConfigError>(
        "mixup and cutmix with packed images, which have different sizes; set data.mixup: "
        "{{mixup_alpha: 0, cutmix_alpha: 0}}");
  }
  if (options.patching) {
    fail<ConfigError>("adaptive_patching with packed images; leave data.adaptive_patching out");
  }
}

// The part of batch.image_patches.values that is a row's.
std::span<float> room_of(Batch& batch, int64_t row) {
  const auto length = batch.image_patches.values.size() / static_cast<size_t>(batch.image_shape[0]);
  return std::span(batch.image_patches.values).subspan(static_cast<size_t>(row) * length, length);
}

// planes: [C, H, W] -> out: [H / P * W / P, C * P * P].
void write_patches(std::span<const float> planes, int64_t channels, ImageSize size, int64_t P,
                   float* out) {
  for (int64_t top = 0; top < size.height; top += P) {
    for (int64_t left = 0; left < size.width; left += P) {
      for (int64_t c = 0; c < channels; ++c) {
        const float* plane = planes.data() + c * size.height * size.width;
        for (int64_t y = top; y < top + P; ++y) {
          out = std::copy_n(plane + y * size.width + left, P, out);
        }
      }
    }
  }
}

void put_image(Batch& batch, int64_t row, std::span<const float> planes, ImageSize size) {
  auto& patches = batch.image_patches;
  const int64_t P = patches.patch_size;
  const int64_t rows = size.height / P, columns = size.width / P;
  FOVEA_CHECK(size.height % P == 0 && size.width % P == 0 && rows * columns <= patches.max_patches,
              "an image of {}x{} pixels; expected at most {} whole patches of {}", size.height,
              size.width, patches.max_patches, P);
  write_patches(planes, batch.image_shape[1], size, P, room_of(batch, row).data());
  patches.grids[static_cast<size_t>(2 * row)] = rows;
  patches.grids[static_cast<size_t>(2 * row + 1)] = columns;
}

void make_room(Batch& batch, int64_t patch_size, int64_t max_patches) {
  const int64_t rows = batch.image_shape[0];
  auto& patches = batch.image_patches;
  patches.patch_size = patch_size;
  patches.max_patches = max_patches;
  patches.values.resize(
      static_cast<size_t>(rows * max_patches * batch.image_shape[1] * patch_size * patch_size));
  patches.grids.resize(static_cast<size_t>(2 * rows));
}

}  // namespace

ImagePatchFiller::ImagePatchFiller(std::shared_ptr<const TransformPipeline> images,
                                   const LoaderOptions& options)
    : images_(std::move(images)) {
  check_packed_options(options);
  if (!images_) fail<ConfigError>("the model takes packed images, but the samples are volumes");
  const auto* resize = images_->to_patches();
  const int64_t patch_size = *options.packed_patch_size;
  if (resize == nullptr || resize->patch_size != patch_size) {
    fail<ConfigError>(
        "the model takes packed images in patches of {}, but the transforms {}; expected "
        "{{name: resize_to_patches, patch_size: {}, max_patches: ...}}, and behind it only what "
        "keeps sizes",
        patch_size,
        resize == nullptr ? "do not end with images of whole patches"
                          : fmt::format("give patches of {}", resize->patch_size),
        patch_size);
  }
  patch_size_ = patch_size;
  max_patches_ = resize->max_patches;
}

void ImagePatchFiller::open(Batch& batch) const { make_room(batch, patch_size_, max_patches_); }

void ImagePatchFiller::fill(Batch& batch, int64_t row, const ImageView& image, RandomStream random,
                            TransformScratch& scratch, std::vector<float>& values) const {
  const ImageSize size = images_->apply_any_size(image, random, values, scratch);
  const StageScope scope(scratch.timer(), Stage::kWrite);
  put_image(batch, row, values, size);
}

void ImagePatchFiller::clear(Batch& batch, int64_t row) const {
  const int64_t P = patch_size_;
  std::fill_n(room_of(batch, row).begin(), batch.image_shape[1] * P * P, 0.0f);
  std::fill_n(batch.image_patches.grids.begin() + 2 * row, 2, int64_t{1});
}

Batch image_patches_of(std::span<const float> values, const std::vector<int64_t>& shape,
                       int64_t patch_size) {
  const ImageSize size{shape[2], shape[3]};
  Batch batch;
  batch.image_shape = {shape[0], shape[1], 0, 0};
  make_room(batch, patch_size, size.height / patch_size * (size.width / patch_size));
  const auto count = static_cast<size_t>(shape[1] * size.height * size.width);
  for (int64_t row = 0; row < shape[0]; ++row) {
    put_image(batch, row, values.subspan(static_cast<size_t>(row) * count, count), size);
  }
  return batch;
}

}  // namespace fovea::data
