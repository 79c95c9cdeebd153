#include "fovea/data/transforms/volume/rand_spatial_crop.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_moves.h"

namespace fovea::data {

VoxelBox draw_spatial_crop(const RandSpatialCropConfig& config, const Extent& volume,
                           RandomStream& random) {
  VoxelBox box;
  box.size = size_or(config.roi_size, volume);
  if (config.random_size) {
    const Extent most = config.max_roi_size.empty() ? volume : size_or(config.max_roi_size, volume);
    for (size_t axis = 0; axis < 3; ++axis) {
      if (box.size[axis] > most[axis]) {
        fail<DataError>(
            "rand_spatial_crop: a least size of {} along axis {}, but {} is the largest there; use "
            "a smaller roi_size or pad before",
            box.size[axis], axis, most[axis]);
      }
      box.size[axis] += random.below(static_cast<uint32_t>(most[axis] - box.size[axis] + 1));
    }
  }
  if (!config.random_center) return center_box(volume, box.size);
  for (size_t axis = 0; axis < 3; ++axis) {
    box.size[axis] = std::min(box.size[axis], volume[axis]);
    box.start[axis] = random.below(static_cast<uint32_t>(volume[axis] - box.size[axis] + 1));
  }
  return box;
}

void RandSpatialCropConfig::validate(ConfigIssues& issues) const {
  check_size("roi_size", roi_size, issues);
  if (!max_roi_size.empty()) check_size("max_roi_size", max_roi_size, issues);
}

ExtentRange RandSpatialCropConfig::output_range(const ExtentRange& in) const {
  ExtentRange out = at_most(roi_size, in);
  if (!random_size) return out;
  out.most = max_roi_size.empty() ? in.most : at_most(max_roi_size, in).most;
  return out;
}

void RandSpatialCropConfig::apply(VolumeItem& item, RandomStream& random, VolumeScratch&) const {
  const VoxelBox box = draw_spatial_crop(*this, item.values.size, random);
  crop(item, box.start, box.size);
}

}  // namespace fovea::data
