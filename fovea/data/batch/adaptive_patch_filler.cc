#include "fovea/data/batch/adaptive_patch_filler.h"

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr uint32_t kPatchingDraws = 1;  // RandomStream::fork

// The part of a buffer of `rows` equal parts that belongs to a row.
template <class T>
std::span<T> part_of(std::vector<T>& values, int64_t row, int64_t rows) {
  const auto length = values.size() / static_cast<size_t>(rows);
  return std::span(values).subspan(static_cast<size_t>(row) * length, length);
}

PatchSpans patches_of(Batch& batch, int64_t row) {
  auto& patches = batch.patches;
  const int64_t rows = batch.image_shape[0];
  return {part_of(patches.tokens, row, rows), part_of(patches.sizes, row, rows),
          part_of(patches.centers, row, rows), part_of(patches.padding, row, rows),
          part_of(patches.trees, row, rows)};
}

// [C, H, W] -> [H, W, C].
void interleave(std::span<const uint8_t> planes, int64_t channels, ImageSize size, Image& image) {
  reshape(image, size, channels);
  const int64_t pixels = size.height * size.width;
  const uint8_t* in = planes.data();
  uint8_t* out = image.pixels.data();
  if (channels == 3) {
    for (int64_t i = 0; i < pixels; ++i) {
      out[3 * i] = in[i];
      out[3 * i + 1] = in[pixels + i];
      out[3 * i + 2] = in[2 * pixels + i];
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c, in += pixels) {
    for (int64_t i = 0; i < pixels; ++i) out[i * channels + c] = in[i];
  }
}

}  // namespace

AdaptivePatchFiller::AdaptivePatchFiller(const PatchingOptions& options,
                                         std::span<const float> mean, std::span<const float> std)
    : patcher_(options.config), is_random_(options.is_random) {
  for (size_t c = 0; c < mean.size(); ++c) {
    scale_.push_back(1.0f / (255.0f * std[c]));
    shift_.push_back(-mean[c] / std[c]);
  }
}

void AdaptivePatchFiller::open(Batch& batch) const {
  const auto& config = patcher_.config();
  const int64_t rows = batch.image_shape[0];
  auto& patches = batch.patches;
  patches.channels = batch.image_shape[1];
  patches.num_trees = config.separate_channels ? patches.channels : 1;
  patches.fixed_length = config.fixed_length;
  patches.patch_size = config.patch_size;
  patches.dims = static_cast<int64_t>(batch.image_shape.size()) - 2;
  patches.of_values.reset();
  if (scale_.empty()) patches.of_values = config;
  const int64_t leaves = rows * patches.num_trees * patches.fixed_length;
  const int64_t token = patches.token_size();
  patches.tokens.resize(rows * patches.channels * patches.fixed_length * token);
  patches.sizes.resize(leaves);
  patches.centers.resize(leaves * patches.dims);
  patches.padding.resize(leaves);
  patches.labels.resize(batch.masks.empty() ? 0 : rows * patches.fixed_length * token);
  patches.trees.resize(rows * patches.num_trees);
}

void AdaptivePatchFiller::fill_image(Batch& batch, int64_t row, VolumeSize size,
                                     std::span<float> pixels, RandomStream random,
                                     PatchFillerScratch& scratch) const {
  const int64_t channels = batch.patches.channels;
  const int64_t count = size.voxels();
  for (int64_t c = 0; c < channels; ++c) {
    const float scale = scale_[static_cast<size_t>(c)], shift = shift_[static_cast<size_t>(c)];
    const uint8_t* in = scratch.planes.data() + c * count;
    float* out = pixels.data() + c * count;
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]) * scale + shift;
  }
  interleave(scratch.planes, channels, {size.height, size.width}, scratch.image);
  auto draws = random.fork(kPatchingDraws);
  patcher_.patch(ImageView(scratch.image), is_random_ ? &draws : nullptr,
                 {.scale = scale_, .shift = shift_}, patches_of(batch, row), scratch.patching);
  fill_labels(batch, row);
}

void AdaptivePatchFiller::fill_volume(Batch& batch, int64_t row, VolumeSize size,
                                      std::span<const float> values, RandomStream random,
                                      PatchFillerScratch& scratch) const {
  auto draws = random.fork(kPatchingDraws);
  patcher_.patch(VolumeValues(values.data(), batch.patches.channels, size),
                 is_random_ ? &draws : nullptr, {}, patches_of(batch, row), scratch.patching);
  fill_labels(batch, row);
}

void AdaptivePatchFiller::fill_large(Batch& batch, int64_t row, const RegionSource& image,
                                     const OutOfCoreOptions& options) const {
  patcher_.patch(image, nullptr, {.scale = scale_, .shift = shift_}, nullptr, options,
                 patches_of(batch, row));
}

void AdaptivePatchFiller::fill_labels(Batch& batch, int64_t row) const {
  auto& patches = batch.patches;
  if (patches.labels.empty()) return;
  const int64_t rows = batch.image_shape[0];
  patcher_.patch_labels(part_of(batch.masks, row, rows), patches.trees[row * patches.num_trees],
                        part_of(patches.labels, row, rows));
}

void AdaptivePatchFiller::clear(Batch& batch, int64_t row) const {
  auto& patches = batch.patches;
  const int64_t rows = batch.image_shape[0];
  const auto fill = [&](auto& values, auto value) {
    if (values.empty()) return;
    const auto part = part_of(values, row, rows);
    std::fill(part.begin(), part.end(), value);
  };
  fill(patches.tokens, 0.0f);
  fill(patches.sizes, 0.0f);
  fill(patches.centers, -1.0f);
  fill(patches.padding, uint8_t{1});
  fill(patches.labels, -1);
  for (auto& tree : part_of(patches.trees, row, rows)) tree = {};
}

Batch cut_volumes(const AdaptivePatchingConfig& config, std::span<const float> values,
                  const std::vector<int64_t>& shape, std::vector<int32_t> masks) {
  const AdaptivePatchFiller cutter({.config = config, .is_random = false}, {}, {});
  Batch batch;
  batch.image_shape = shape;
  batch.images.assign(values.begin(), values.end());
  batch.masks = std::move(masks);
  cutter.open(batch);
  PatchFillerScratch scratch;
  const auto last = shape.size();
  const VolumeSize size{last == 5 ? shape[2] : 1, shape[last - 2], shape[last - 1]};
  for (int64_t row = 0; row < shape[0]; ++row) {
    const auto own = part_of(batch.images, row, shape[0]);
    cutter.fill_volume(batch, row, size, own, RandomStream(PhiloxKey{}, 0), scratch);
    batch.indices.push_back(row);
    batch.rows.push_back(row);
    batch.weights.push_back(1);
  }
  return batch;
}

}  // namespace fovea::data
