// Every transform of volumes twice: what it does to the size, and what it does to the sample. Pure
// functions of the sample and the random stream.
#pragma once

#include "fovea/core/philox.h"
#include "fovea/data/transforms/volume/volume_configs.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// Sizes that can come out of volumes of these sizes. Spacing and crop_foreground depend on the
// sample, so they know little.
ExtentRange output_range(const SpatialPadConfig& config, const ExtentRange& in);
ExtentRange output_range(const CenterSpatialCropConfig& config, const ExtentRange& in);
ExtentRange output_range(const RandSpatialCropConfig& config, const ExtentRange& in);
ExtentRange output_range(const RandCropByPosNegLabelConfig& config, const ExtentRange& in);
ExtentRange output_range(const CropForegroundConfig& config, const ExtentRange& in);
ExtentRange output_range(const RandRotate90Config& config, const ExtentRange& in);
ExtentRange output_range(const RandAffineConfig& config, const ExtentRange& in);
ExtentRange output_range(const SpatialResizeConfig& config, const ExtentRange& in);
ExtentRange output_range(const SpacingConfig& config, const ExtentRange& in);
// The others leave the size alone.
template <class Config>
ExtentRange output_range(const Config&, const ExtentRange& in) {
  return in;
}

// Changes `item`, whose windows then look at what they looked at before or at a buffer of
// `scratch`. Errors are DataErrors, named in volume_crops.h, volume_affine.h and
// volume_intensity.h.
void apply(const SpatialPadConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const CenterSpatialCropConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandSpatialCropConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandCropByPosNegLabelConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const CropForegroundConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandFlipConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandRotate90Config& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandAffineConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const SpatialResizeConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const SpacingConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandShiftIntensityConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandScaleIntensityConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandGaussianNoiseConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const RandGaussianSmoothConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const ScaleIntensityRangeConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const ScaleIntensityConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);
void apply(const NormalizeIntensityConfig& config, VolumeItem& item, RandomStream& random,
           VolumeScratch& scratch);

}  // namespace fovea::data
