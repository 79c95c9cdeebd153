#include "fovea/data/transforms/volume/spacing.h"

#include <array>

#include "fovea/data/transforms/volume/volume_resample.h"

namespace fovea::data {

void SpacingConfig::validate(ConfigIssues& issues) const {
  if (has_one_or_three(pixdim)) return;
  issues.add("pixdim", listed(pixdim) + "; expected one number or one for each axis");
}

void SpacingConfig::apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const {
  const Extent in = item.values.size;
  const PaddingMode padding = padding_mode_from_name(padding_mode);
  Extent size;
  std::array<double, 3> step;
  std::array<double, 3> spacing;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double wanted = pixdim.size() == 1 ? pixdim[0] : pixdim[axis];
    spacing[axis] = wanted > 0 ? wanted : item.spacing[axis];
    step[axis] = spacing[axis] / item.spacing[axis];
    size[axis] = size_by_step(in[axis], step[axis]);
    sample_by_step(in[axis], size[axis], step[axis], padding, scratch.samples[axis]);
  }
  if (spacing == item.spacing) return;
  resample_axes(item, size, scratch);
  item.spacing = spacing;
}

}  // namespace fovea::data
