// Index moves of a volume and its mask: the voxels stay what they are.
#pragma once

#include <string>

#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// The box [start, start + size), which must lie inside.
void crop(VolumeItem& item, const Extent& start, const Extent& size);

// Turns an axis (0 depth, 1 height, 2 width) round.
void flip(VolumeItem& item, int axis);

// k quarter turns from axis a towards axis b, as numpy.rot90(volume, k, (a, b)).
void rotate90(VolumeItem& item, int64_t k, int a, int b);

// What new voxels hold: numpy.pad's constant, edge, reflect (the border voxel is not repeated) and
// wrap. Reflection and wrapping go on as often as the padding needs.
enum class VolumePadMode { kConstant, kEdge, kReflect, kWrap };

// "constant", "edge", "reflect" or "wrap"; throws ConfigError otherwise.
VolumePadMode volume_pad_mode_from_name(const std::string& name);

struct Padding {
  Extent before = {};
  Extent after = {};
  VolumePadMode mode = VolumePadMode::kConstant;
  float value = 0;         // for kConstant
  int32_t mask_value = 0;  // for kConstant
};

void pad(VolumeItem& item, const Padding& padding, VolumeScratch& scratch);

}  // namespace fovea::data
