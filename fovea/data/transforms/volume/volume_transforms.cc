#include "fovea/data/transforms/volume/center_spatial_crop.h"
#include "fovea/data/transforms/volume/crop_foreground.h"
#include "fovea/data/transforms/volume/normalize_intensity.h"
#include "fovea/data/transforms/volume/rand_affine.h"
#include "fovea/data/transforms/volume/rand_crop_by_pos_neg_label.h"
#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/rand_gaussian_noise.h"
#include "fovea/data/transforms/volume/rand_gaussian_smooth.h"
#include "fovea/data/transforms/volume/rand_rotate90.h"
#include "fovea/data/transforms/volume/rand_scale_intensity.h"
#include "fovea/data/transforms/volume/rand_shift_intensity.h"
#include "fovea/data/transforms/volume/rand_spatial_crop.h"
#include "fovea/data/transforms/volume/scale_intensity.h"
#include "fovea/data/transforms/volume/scale_intensity_range.h"
#include "fovea/data/transforms/volume/spacing.h"
#include "fovea/data/transforms/volume/spatial_pad.h"
#include "fovea/data/transforms/volume/spatial_resize.h"

namespace fovea::data {

// A new transform of volumes: a line here, and its header above. See docs/adding_a_transform.md.
const ConfigAlternatives& VolumeTransform::alternatives() {
  static const ConfigAlternatives all = {
      alternative<VolumeTransformOf<SpatialPadConfig>>(),
      alternative<VolumeTransformOf<CenterSpatialCropConfig>>(),
      alternative<VolumeTransformOf<RandSpatialCropConfig>>(),
      alternative<VolumeTransformOf<RandCropByPosNegLabelConfig>>(),
      alternative<VolumeTransformOf<CropForegroundConfig>>(),
      alternative<VolumeTransformOf<RandFlipConfig>>(),
      alternative<VolumeTransformOf<RandRotate90Config>>(),
      alternative<VolumeTransformOf<RandAffineConfig>>(),
      alternative<VolumeTransformOf<SpatialResizeConfig>>(),
      alternative<VolumeTransformOf<SpacingConfig>>(),
      alternative<VolumeTransformOf<RandShiftIntensityConfig>>(),
      alternative<VolumeTransformOf<RandScaleIntensityConfig>>(),
      alternative<VolumeTransformOf<RandGaussianNoiseConfig>>(),
      alternative<VolumeTransformOf<RandGaussianSmoothConfig>>(),
      alternative<VolumeTransformOf<ScaleIntensityRangeConfig>>(),
      alternative<VolumeTransformOf<ScaleIntensityConfig>>(),
      alternative<VolumeTransformOf<NormalizeIntensityConfig>>(),
  };
  return all;
}

}  // namespace fovea::data
