// Volumes and fields as they are stored or computed: float values, channels first.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace fovea::data {

struct VolumeSize {
  int64_t depth = 0;
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const VolumeSize&) const = default;

  int64_t voxels() const { return depth * height * width; }
  std::array<int64_t, 3> sides() const { return {depth, height, width}; }
};

// A box of voxels inside a volume.
struct VolumeRegion {
  std::array<int64_t, 3> start = {};  // along D, H, W
  VolumeSize size;
  VolumeSize whole;  // the volume's
};

// A scan or a simulation field. Depth 1: a slice or a 2-D field that is not made of bytes.
struct Volume {
  int64_t channels = 0;
  VolumeSize size;
  std::array<double, 3> spacing = {1, 1, 1};  // between voxels along D, H, W, in millimetres
  std::vector<float> values;                  // [C, D, H, W]
};

// A class for each voxel, or for each pixel of an image (depth 1); -1: not labelled.
struct LabelMap {
  VolumeSize size;
  std::vector<int32_t> classes;  // [D, H, W]
};

// A place in a sample, in voxels along D, H, W; 0 is the centre of the first voxel.
using Point = std::array<double, 3>;

}  // namespace fovea::data
