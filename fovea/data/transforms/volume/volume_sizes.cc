// output_range of every transform; see volume_transforms.h.
#include <algorithm>

#include "fovea/data/transforms/volume/volume_transforms.h"

namespace fovea::data {
namespace {

// f(least or largest, axis) at both ends of the range; f must not fall.
template <class F>
ExtentRange map_ends(const ExtentRange& in, F&& f) {
  ExtentRange out;
  for (size_t axis = 0; axis < 3; ++axis) {
    out.least[axis] = f(in.least[axis], axis);
    out.most[axis] = f(in.most[axis], axis);
  }
  return out;
}

int64_t of_axis(const std::vector<int64_t>& values, size_t axis) {
  return values.size() == 1 ? values[0] : values[axis];
}

ExtentRange cropped(const std::vector<int64_t>& size, const ExtentRange& in) {
  return map_ends(in, [&](int64_t side, size_t axis) {
    const int64_t wanted = of_axis(size, axis);
    return wanted > 0 ? std::min(wanted, side) : side;
  });
}

ExtentRange fixed(const std::vector<int64_t>& size, const ExtentRange& in) {
  return {size_or(size, in.least), size_or(size, in.most)};
}

}  // namespace

ExtentRange output_range(const SpatialPadConfig& config, const ExtentRange& in) {
  return map_ends(in, [&](int64_t side, size_t axis) {
    return std::max(of_axis(config.spatial_size, axis), side);
  });
}

ExtentRange output_range(const CenterSpatialCropConfig& config, const ExtentRange& in) {
  return cropped(config.roi_size, in);
}

ExtentRange output_range(const RandSpatialCropConfig& config, const ExtentRange& in) {
  ExtentRange out = cropped(config.roi_size, in);
  if (!config.random_size) return out;
  out.most = config.max_roi_size.empty() ? in.most : cropped(config.max_roi_size, in).most;
  return out;
}

ExtentRange output_range(const RandCropByPosNegLabelConfig& config, const ExtentRange& in) {
  // Without allow_smaller a smaller volume is an error, so what comes out has the full size.
  return config.allow_smaller ? cropped(config.spatial_size, in) : fixed(config.spatial_size, in);
}

ExtentRange output_range(const CropForegroundConfig&, const ExtentRange&) { return {}; }

ExtentRange output_range(const RandRotate90Config& config, const ExtentRange& in) {
  const auto a = static_cast<size_t>(config.spatial_axes[0]);
  const auto b = static_cast<size_t>(config.spatial_axes[1]);
  ExtentRange out = in;
  out.least[a] = out.least[b] = std::min(in.least[a], in.least[b]);
  out.most[a] = out.most[b] = std::max(in.most[a], in.most[b]);
  return out;
}

ExtentRange output_range(const RandAffineConfig& config, const ExtentRange& in) {
  return fixed(config.spatial_size, in);
}

ExtentRange output_range(const SpatialResizeConfig& config, const ExtentRange& in) {
  return fixed(config.spatial_size, in);
}

ExtentRange output_range(const SpacingConfig&, const ExtentRange&) { return {}; }

}  // namespace fovea::data
