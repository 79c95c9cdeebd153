// Slices of volumes as pictures.
#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/data/pictures/pictures.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {
namespace {

constexpr size_t kMostOfWindow = 1'000'000;
constexpr double kWindowShare = 0.005;  // of the values below black, and above white

uint8_t gray_level(float value, const GrayWindow& window) {
  const float range = window.white - window.black;
  const float level = range > 0 ? (value - window.black) / range * 255.0f + 0.5f : 0.0f;
  return static_cast<uint8_t>(std::clamp(level, 0.0f, 255.0f));
}

// The voxels of a plane in the order in which a picture shows them.
class PlaneWalk {
 public:
  PlaneWalk(const VolumeSize& size, const SlicePlane& plane) : plane_(plane) {
    const Extent extent = extent_of(size);
    const Extent steps = {size.height * size.width, size.width, 1};
    const auto rows = static_cast<size_t>(plane.row_axis());
    const auto columns = static_cast<size_t>(plane.column_axis());
    const auto axis = static_cast<size_t>(plane.axis);
    FOVEA_CHECK(plane.place >= 0 && plane.place < extent[axis], "slice {} of {}", plane.place,
                extent[axis]);
    size_ = {extent[rows], extent[columns]};
    first_ = plane.place * steps[axis];
    row_step_ = steps[rows];
    column_step_ = steps[columns];
  }

  ImageSize size() const { return size_; }
  int64_t voxel(int64_t y, int64_t x) const {
    const int64_t row = plane_.is_upwards() ? size_.height - 1 - y : y;
    return first_ + row * row_step_ + x * column_step_;
  }

 private:
  SlicePlane plane_;
  ImageSize size_;
  int64_t first_ = 0;
  int64_t row_step_ = 0;
  int64_t column_step_ = 0;
};

// Files may state a spacing of 0 or less.
double millimetres(const Volume& volume, size_t axis) {
  const double spacing = std::abs(volume.spacing[axis]);
  return std::isfinite(spacing) && spacing > 0 ? spacing : 1.0;
}

}  // namespace

GrayWindow gray_window(std::span<const float> values) {
  if (values.empty()) return {};
  const size_t step = values.size() / kMostOfWindow + 1;
  std::vector<float> some;
  for (size_t i = 0; i < values.size(); i += step) some.push_back(values[i]);
  const auto at_share = [&](double share) {
    const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(some.size() - 1));
    std::nth_element(some.begin(), some.begin() + place, some.end());
    return some[static_cast<size_t>(place)];
  };
  const GrayWindow window = {at_share(kWindowShare), at_share(1 - kWindowShare)};
  if (window.white > window.black) return window;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least, *most};
}

Image slice_picture(const Volume& volume, int64_t channel, const LabelMap& mask,
                    const SlicePlane& plane, const GrayWindow& window) {
  FOVEA_CHECK(channel >= 0 && channel < volume.channels, "channel {} of {}", channel,
              volume.channels);
  const PlaneWalk walk(volume.size, plane);
  const float* values = volume.values.data() + channel * volume.size.voxels();
  const bool has_mask = !mask.classes.empty();
  FOVEA_CHECK(!has_mask || mask.size == volume.size, "a mask of another size than the volume");
  Image rgb;
  reshape(rgb, walk.size(), 3);
  LabelMap classes = {{1, rgb.height, rgb.width}, {}};
  uint8_t* out = rgb.pixels.data();
  for (int64_t y = 0; y < rgb.height; ++y) {
    for (int64_t x = 0; x < rgb.width; ++x) {
      const int64_t voxel = walk.voxel(y, x);
      const uint8_t level = gray_level(values[voxel], window);
      for (int c = 0; c < 3; ++c) *out++ = level;
      if (has_mask) classes.classes.push_back(mask.classes[static_cast<size_t>(voxel)]);
    }
  }
  if (has_mask) tint(classes, rgb);
  return rgb;
}

ImageSize slice_size(const Volume& volume, const SlicePlane& plane, double scale) {
  const Extent extent = extent_of(volume.size);
  const auto pixels = [&](int axis) {
    const auto place = static_cast<size_t>(axis);
    const double length = static_cast<double>(extent[place]) * millimetres(volume, place);
    return std::max<int64_t>(1, std::llround(length * scale));
  };
  return {pixels(plane.row_axis()), pixels(plane.column_axis())};
}

std::vector<SlicePlane> middle_planes(const VolumeSize& size, SliceLayout layout) {
  const Extent extent = extent_of(size);
  std::vector<SlicePlane> planes;
  for (int axis = 0; axis < 3; ++axis) {
    planes.push_back({axis, extent[static_cast<size_t>(axis)] / 2, layout});
    if (size.depth == 1) break;
  }
  return planes;
}

double millimetre_scale(const Volume& volume, int64_t side) {
  const Extent extent = extent_of(volume.size);
  double longest = 0;
  for (size_t axis = volume.size.depth == 1 ? 1 : 0; axis < 3; ++axis) {
    longest = std::max(longest, static_cast<double>(extent[axis]) * millimetres(volume, axis));
  }
  return static_cast<double>(side) / longest;
}

Image volume_picture(const Volume& volume, int64_t channel, const LabelMap& mask,
                     SliceLayout layout, int64_t side) {
  const auto voxels = static_cast<size_t>(volume.size.voxels());
  const GrayWindow window =
      gray_window(std::span(volume.values).subspan(static_cast<size_t>(channel) * voxels, voxels));
  const double scale = millimetre_scale(volume, side);
  std::vector<Image> slices;
  for (const SlicePlane& plane : middle_planes(volume.size, layout)) {
    slices.push_back(fit_exactly(slice_picture(volume, channel, mask, plane, window),
                                 slice_size(volume, plane, scale)));
  }
  if (slices.size() == 1) return slices[0];
  return contact_sheet(slices, {.columns = 3, .gap = 2, .background = {0, 0, 0}});
}

}  // namespace fovea::data
