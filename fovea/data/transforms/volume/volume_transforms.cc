#include "fovea/data/transforms/volume/volume_transforms.h"

#include <algorithm>
#include <array>
#include <span>

#include "fovea/core/error.h"
#include "fovea/data/transforms/volume/volume_affine.h"
#include "fovea/data/transforms/volume/volume_crops.h"
#include "fovea/data/transforms/volume/volume_intensity.h"
#include "fovea/data/transforms/volume/volume_moves.h"
#include "fovea/data/transforms/volume/volume_resample.h"

namespace fovea::data {
namespace {

// One draw for all channels, or one for each, from [-r, r) or [least, largest).
std::span<const float> draw_values(const std::vector<double>& range, double add, bool channel_wise,
                                   int64_t channels, RandomStream& random, VolumeScratch& scratch) {
  const double low = range.size() == 1 ? -range[0] : range[0];
  const double high = range.back();
  const int64_t count = channel_wise ? channels : 1;
  float* values = VolumeScratch::grown(scratch.row, count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(random.uniform(low, high) + add);
  }
  return {values, static_cast<size_t>(count)};
}

}  // namespace

void apply(const SpatialPadConfig& config, VolumeItem& item, RandomStream&,
           VolumeScratch& scratch) {
  const Extent wanted = size_or(config.spatial_size, item.values.size);
  Padding padding;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t missing = std::max<int64_t>(wanted[axis] - item.values.size[axis], 0);
    padding.before[axis] = config.method == "symmetric" ? missing / 2 : 0;
    padding.after[axis] = missing - padding.before[axis];
  }
  padding.mode = pad_mode_from_name(config.mode);
  padding.value = static_cast<float>(config.value);
  padding.mask_value = static_cast<int32_t>(config.mask_value);
  pad(item, padding, scratch);
}

void apply(const CenterSpatialCropConfig& config, VolumeItem& item, RandomStream&, VolumeScratch&) {
  const VolumeBox box = center_box(item.values.size, size_or(config.roi_size, item.values.size));
  crop(item, box.start, box.size);
}

void apply(const RandSpatialCropConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch&) {
  const VolumeBox box = draw_spatial_crop(config, item.values.size, random);
  crop(item, box.start, box.size);
}

void apply(const RandCropByPosNegLabelConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch) {
  const VolumeBox box = draw_pos_neg_crop(config, item, random, scratch);
  crop(item, box.start, box.size);
}

void apply(const CropForegroundConfig& config, VolumeItem& item, RandomStream&,
           VolumeScratch& scratch) {
  const VolumeBox box = foreground_box(config, item);
  Padding padding;
  Extent start, size;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t end = box.start[axis] + box.size[axis];
    start[axis] = std::max<int64_t>(box.start[axis], 0);
    size[axis] = std::min(end, item.values.size[axis]) - start[axis];
    padding.before[axis] = start[axis] - box.start[axis];
    padding.after[axis] = box.size[axis] - size[axis] - padding.before[axis];
  }
  crop(item, start, size);
  pad(item, padding, scratch);
}

void apply(const RandFlipConfig& config, VolumeItem& item, RandomStream& random, VolumeScratch&) {
  static const std::vector<int64_t> kAllAxes = {0, 1, 2};
  const auto& axes = config.spatial_axis.empty() ? kAllAxes : config.spatial_axis;
  bool is_drawn = config.per_axis || random.bernoulli(config.prob);
  for (const int64_t axis : axes) {
    if (config.per_axis) is_drawn = random.bernoulli(config.prob);
    if (is_drawn) flip(item, static_cast<int>(axis));
  }
}

void apply(const RandRotate90Config& config, VolumeItem& item, RandomStream& random,
           VolumeScratch&) {
  if (!random.bernoulli(config.prob)) return;
  const int64_t k = random.below(static_cast<uint32_t>(config.max_k)) + 1;
  rotate90(item, k, static_cast<int>(config.spatial_axes[0]),
           static_cast<int>(config.spatial_axes[1]));
}

void apply(const RandAffineConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch) {
  const Extent size = size_or(config.spatial_size, item.values.size);
  const auto params = draw_affine(config, random);
  if (!params && size == item.values.size) return;
  const SampleMode mode = config.mode == "nearest" ? SampleMode::kNearest : SampleMode::kLinear;
  resample_affine(item, affine_map(params.value_or(AffineParams{})), size, mode,
                  padding_mode_from_name(config.padding_mode), scratch);
}

void apply(const SpatialResizeConfig& config, VolumeItem& item, RandomStream&,
           VolumeScratch& scratch) {
  const Extent in = item.values.size;
  const Extent size = size_or(config.spatial_size, in);
  if (size == in) return;
  std::array<double, 3> sigma, factor;
  for (size_t axis = 0; axis < 3; ++axis) {
    factor[axis] = static_cast<double>(in[axis]) / static_cast<double>(size[axis]);
    sigma[axis] = config.anti_aliasing ? std::max((factor[axis] - 1.0) / 2.0, 0.0) : 0.0;
    sample_to_size(in[axis], size[axis], config.mask_mode == "nearest-exact",
                   scratch.samples[axis]);
  }
  if (config.anti_aliasing) gaussian_smooth(item, sigma, scratch);
  resample_axes(item, size, scratch);
  for (size_t axis = 0; axis < 3; ++axis) item.spacing[axis] *= factor[axis];
}

void apply(const SpacingConfig& config, VolumeItem& item, RandomStream&, VolumeScratch& scratch) {
  const Extent in = item.values.size;
  const PaddingMode padding = padding_mode_from_name(config.padding_mode);
  Extent size;
  std::array<double, 3> step;
  std::array<double, 3> spacing;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double wanted = config.pixdim.size() == 1 ? config.pixdim[0] : config.pixdim[axis];
    spacing[axis] = wanted > 0 ? wanted : item.spacing[axis];
    step[axis] = spacing[axis] / item.spacing[axis];
    size[axis] = size_by_step(in[axis], step[axis]);
    sample_by_step(in[axis], size[axis], step[axis], padding, scratch.samples[axis]);
  }
  if (spacing == item.spacing) return;
  resample_axes(item, size, scratch);
  item.spacing = spacing;
}

void apply(const RandShiftIntensityConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch) {
  if (!random.bernoulli(config.prob)) return;
  shift_intensity(
      item,
      draw_values(config.offsets, 0.0, config.channel_wise, item.values.channels, random, scratch),
      scratch);
}

void apply(const RandScaleIntensityConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch) {
  if (!random.bernoulli(config.prob)) return;
  multiply_intensity(
      item,
      draw_values(config.factors, 1.0, config.channel_wise, item.values.channels, random, scratch),
      scratch);
}

void apply(const RandGaussianNoiseConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch) {
  if (!random.bernoulli(config.prob)) return;
  const double std = config.sample_std ? random.uniform(0.0, config.std) : config.std;
  const uint32_t low = random.next_word();
  const PhiloxKey key = {low, random.next_word()};
  add_gaussian_noise(item, key, static_cast<float>(config.mean), static_cast<float>(std), scratch);
}

void apply(const RandGaussianSmoothConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch) {
  if (!random.bernoulli(config.prob)) return;
  std::array<double, 3> sigma;
  sigma[0] = random.uniform(config.sigma_x[0], config.sigma_x[1]);
  sigma[1] = random.uniform(config.sigma_y[0], config.sigma_y[1]);
  sigma[2] = random.uniform(config.sigma_z[0], config.sigma_z[1]);
  gaussian_smooth(item, sigma, scratch);
}

void apply(const ScaleIntensityRangeConfig& config, VolumeItem& item, RandomStream&,
           VolumeScratch& scratch) {
  scale_intensity_range(item, config, scratch);
}

void apply(const ScaleIntensityConfig& config, VolumeItem& item, RandomStream&,
           VolumeScratch& scratch) {
  scale_intensity(item, config, scratch);
}

void apply(const NormalizeIntensityConfig& config, VolumeItem& item, RandomStream&,
           VolumeScratch& scratch) {
  normalize_intensity(item, config, scratch);
}

}  // namespace fovea::data
