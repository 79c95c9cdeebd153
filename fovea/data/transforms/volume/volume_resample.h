// Resampling along the axes: to a size, and to voxels of given millimetres.
#pragma once

#include <array>
#include <cstdint>

#include "fovea/data/transforms/volume/volume_padding.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// Samples of torch's interpolate with align_corners=False: voxel i lies at (i + 0.5) * in / out -
// 0.5. is_exact: the mask takes the voxel whose centre is nearest (nearest-exact), else the one at
// floor(i * in / out).
void sample_to_size(int64_t in, int64_t out, bool is_exact, AxisSamples& samples);

// Samples of voxels `step` input voxels apart, the first one at the first; MONAI's Spacing.
void sample_by_step(int64_t in, int64_t out, double step, PaddingMode mode, AxisSamples& samples);

// Voxels that fit between the centres of the first and the last of `in`, at `step`: round((in - 1)
// / step + 1), halves to the even number.
int64_t size_by_step(int64_t in, double step);

// Resamples values linearly and the mask to the nearest voxel, as scratch.samples say for each
// axis. Points and spacing stay for the caller.
void resample_axes(VolumeItem& item, const Extent& size, VolumeScratch& scratch);

// The kernel of MONAI's GaussianFilter (approx erf): the integral of a Gaussian over each voxel,
// int(max(4 sigma, 0.5) + 0.5) voxels to both sides. sigma > 0.
void gaussian_kernel(double sigma, std::vector<float>& kernel);

// Smooths values along each axis whose sigma (in voxels) is above 0; zeros lie outside. An axis of
// one voxel is left alone.
void gaussian_smooth(VolumeItem& item, const std::array<double, 3>& sigma, VolumeScratch& scratch);

}  // namespace fovea::data
