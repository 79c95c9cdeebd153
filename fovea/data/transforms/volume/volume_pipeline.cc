#include "fovea/data/transforms/volume/volume_pipeline.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"
#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

constexpr int64_t kCountPiece = 1 << 20;  // counted in 32 bits

// Values whose exponent is all ones: NaN and infinity.
[[gnu::flatten]] FOVEA_SIMD int32_t count_not_finite(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  int32_t found = 0;
#pragma omp simd reduction(+ : found)
  for (int64_t i = 0; i < count; ++i) {
    found += (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent ? 1 : 0;
  }
  return found;
}

void check_volume(const Volume& volume, int64_t in_chans) {
  const auto [depth, height, width] = volume.size;
  if (volume.channels != in_chans) {
    fail<DataError>("a volume with {} channel(s), but the model takes {}; set in_chans to {}",
                    volume.channels, in_chans, volume.channels);
  }
  const bool has_voxels = depth > 0 && height > 0 && width > 0;
  if (!has_voxels ||
      static_cast<int64_t>(volume.values.size()) != volume.channels * volume.size.voxels()) {
    fail<DataError>(
        "{} values for a volume of {}x{}x{}x{}; the file is damaged or its reader wrong",
        volume.values.size(), volume.channels, depth, height, width);
  }
}

void check_mask(const LabelMap& mask, const VolumeSize& size) {
  if (mask.size == size && static_cast<int64_t>(mask.classes.size()) == size.voxels()) return;
  fail<DataError>("a mask of {}x{}x{} beside a volume of {}x{}x{}; expected equal sizes",
                  mask.size.depth, mask.size.height, mask.size.width, size.depth, size.height,
                  size.width);
}

}  // namespace

void check_finite(const Volume& volume) {
  const auto count = static_cast<int64_t>(volume.values.size());
  const float* values = volume.values.data();
  int64_t found = 0;
  for (int64_t i = 0; i < count; i += kCountPiece) {
    found += count_not_finite(values + i, std::min(kCountPiece, count - i));
  }
  if (found == 0) return;
  const auto is_bad = [](float value) { return !std::isfinite(value); };
  const int64_t first = std::find_if(values, values + count, is_bad) - values;
  const auto [depth, height, width] = volume.size;
  fail<DataError>(
      "{} of {} values are NaN or infinite, the first in channel {} at voxel [{}, {}, {}] (depth, "
      "height, width); mend or leave out the file",
      found, count, first / volume.size.voxels(), first / (height * width) % depth,
      first / width % height, first % width);
}

void image_to_volume(const Image& image, Volume& volume) {
  volume.channels = image.channels;
  volume.size = {1, image.height, image.width};
  volume.spacing = {1, 1, 1};
  volume.values.resize(image.pixels.size());
  const int64_t pixels = image.height * image.width;
  for (int64_t c = 0; c < image.channels; ++c) {
    const uint8_t* from = image.pixels.data() + c;
    float* to = volume.values.data() + c * pixels;
    for (int64_t i = 0; i < pixels; ++i) {
      to[i] = static_cast<float>(from[i * image.channels]) / 255.0f;
    }
  }
}

VolumePipeline::VolumePipeline(std::vector<VolumeTransformConfig> transforms, int64_t in_chans)
    : transforms_(std::move(transforms)), in_chans_(in_chans) {
  if (in_chans < 1) fail<ConfigError>("in_chans={}; expected a number above 0", in_chans);
  // Recipes are checked when they are read; lists written in code are checked here.
  for (const auto& transform : transforms_) {
    ConfigIssues issues;
    transform.held().bind()->validate(issues);
    throw_issues(transform.name(), issues);
  }
}

std::optional<VolumeSize> VolumePipeline::output_size(std::optional<VolumeSize> in) const {
  ExtentRange range;
  if (in) range = {extent_of(*in), extent_of(*in)};
  for (const auto& transform : transforms_) range = transform->output_range(range);
  if (!range.is_known()) return std::nullopt;
  return size_of(range.least);
}

const VolumeItem& VolumePipeline::run(const Sample& sample, RandomStream random,
                                      VolumeScratch& scratch) const {
  const bool is_image = sample.is<Image>();
  if (is_image) image_to_volume(sample.image(), scratch.volume);
  const Volume& volume = is_image ? scratch.volume : sample.volume();
  check_volume(volume, in_chans_);
  check_finite(volume);
  const Extent size = extent_of(volume.size);
  VolumeItem& item = scratch.item;
  item.values = FieldView<float>::dense(volume.values.data(), volume.channels, size);
  item.is_owned = false;
  item.classes = {};
  if (!sample.mask.classes.empty()) {
    check_mask(sample.mask, volume.size);
    item.classes = FieldView<int32_t>::dense(sample.mask.classes.data(), 1, size);
  }
  item.spacing = volume.spacing;
  for (const auto& transform : transforms_) transform->apply(item, random, scratch);
  return item;
}

void VolumePipeline::apply(const Sample& sample, RandomStream random, VolumeSize size,
                           std::span<float> out, std::span<int32_t> mask,
                           VolumeScratch& scratch) const {
  const VolumeItem& item = run(sample, random, scratch);
  const VolumeSize found = size_of(item.values.size);
  if (found != size) {
    fail<DataError>(
        "{}x{}x{} voxels after the transforms, expected {}x{}x{}; volumes of a batch must have one "
        "size: add `resize`, or `spatial_pad` and a crop, to the transforms",
        found.depth, found.height, found.width, size.depth, size.height, size.width);
  }
  FOVEA_CHECK(static_cast<int64_t>(out.size()) == in_chans_ * size.voxels() &&
                  (mask.empty() || static_cast<int64_t>(mask.size()) == size.voxels()),
              "room for {} floats and {} classes; expected {}x{}x{}x{}", out.size(), mask.size(),
              in_chans_, size.depth, size.height, size.width);
  copy_voxels(item.values, out.data());
  if (mask.empty()) return;
  if (!item.has_mask()) fail<DataError>("no mask; expected one for every sample of this data set");
  copy_voxels(item.classes, mask.data());
}

}  // namespace fovea::data
