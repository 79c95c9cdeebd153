// Changes of values, voxel by voxel; the mask stays. Every function reads the whole item and
// leaves its values in order in a buffer of the scratch.
#pragma once

#include <cstdint>
#include <span>

#include "fovea/core/philox.h"
#include "fovea/data/transforms/volume/volume_configs.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// value + offset; one offset for all channels, or one for each.
void shift_intensity(VolumeItem& item, std::span<const float> offsets, VolumeScratch& scratch);

// value * factor; one factor for all channels, or one for each.
void multiply_intensity(VolumeItem& item, std::span<const float> factors, VolumeScratch& scratch);

void scale_intensity_range(VolumeItem& item, const ScaleIntensityRangeConfig& config,
                           VolumeScratch& scratch);
void scale_intensity(VolumeItem& item, const ScaleIntensityConfig& config, VolumeScratch& scratch);

// Throws DataError where subtrahend or divisor do not fit the channels.
void normalize_intensity(VolumeItem& item, const NormalizeIntensityConfig& config,
                         VolumeScratch& scratch);

// value + mean + std * n, where n of voxel i (in order [C, D, H, W]) is standard_normals of `key`.
void add_gaussian_noise(VolumeItem& item, PhiloxKey key, float mean, float std,
                        VolumeScratch& scratch);

}  // namespace fovea::data
