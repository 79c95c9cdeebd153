#include "fovea/data/transforms/volume/spatial_resize.h"

#include <algorithm>
#include <array>

#include "fovea/data/transforms/volume/volume_resample.h"

namespace fovea::data {

void SpatialResizeConfig::apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const {
  const Extent in = item.values.size;
  const Extent size = size_or(spatial_size, in);
  if (size == in) return;
  std::array<double, 3> sigma, factor;
  for (size_t axis = 0; axis < 3; ++axis) {
    factor[axis] = static_cast<double>(in[axis]) / static_cast<double>(size[axis]);
    sigma[axis] = anti_aliasing ? std::max((factor[axis] - 1.0) / 2.0, 0.0) : 0.0;
    sample_to_size(in[axis], size[axis], mask_mode == "nearest-exact", scratch.samples[axis]);
  }
  if (anti_aliasing) gaussian_smooth(item, sigma, scratch);
  resample_axes(item, size, scratch);
  for (size_t axis = 0; axis < 3; ++axis) item.spacing[axis] *= factor[axis];
}

}  // namespace fovea::data
