// Where crops of volumes lie. What is drawn and what is done with it are apart, so that a given
// choice can be compared with MONAI's.
#pragma once

#include "fovea/core/philox.h"
#include "fovea/data/transforms/volume/volume_configs.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// A box of an image; it may reach beyond it, where voxels are added.
struct VolumeBox {
  Extent start = {};
  Extent size = {};
};

// MONAI's middle: volume / 2 - size / 2, both rounded down.
VolumeBox center_box(const Extent& volume, const Extent& size);

// Throws ConfigError where a size of roi_size is above one of max_roi_size.
VolumeBox draw_spatial_crop(const RandSpatialCropConfig& config, const Extent& volume,
                            RandomStream& random);

// How many voxels a box may be drawn around; see RandCropByPosNegLabelConfig.
struct LabelCounts {
  int64_t foreground = 0;
  int64_t background = 0;
};
LabelCounts count_labels(const VolumeItem& item, const RandCropByPosNegLabelConfig& config,
                         VolumeScratch& scratch);

// Place of the k-th foreground or background voxel in the order [D, H, W]. Needs the counts by
// plane that count_labels left in `scratch`.
Extent find_label(const VolumeItem& item, const RandCropByPosNegLabelConfig& config,
                  bool is_foreground, int64_t k, const VolumeScratch& scratch);

// The box around `center`, moved inside.
VolumeBox box_around(const Extent& center, const Extent& size, const Extent& volume);

// Throws DataError: no mask, nothing to draw around, a box larger than the volume.
VolumeBox draw_pos_neg_crop(const RandCropByPosNegLabelConfig& config, const VolumeItem& item,
                            RandomStream& random, VolumeScratch& scratch);

// Throws DataError: no voxel above the threshold, a channel that is not there.
VolumeBox foreground_box(const CropForegroundConfig& config, const VolumeItem& item);

}  // namespace fovea::data
