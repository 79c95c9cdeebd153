#include "fovea/data/transforms/volume/volume_affine.h"

#include <cmath>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/transforms/volume/volume_sample_rows.h"

namespace fovea::data {
namespace {

using Matrix = std::array<std::array<double, 3>, 3>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result = {};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 3; ++k) result[i][j] += a[i][k] * b[k][j];
    }
  }
  return result;
}

Matrix rotation(const std::array<double, 3>& angle) {
  const std::array<double, 3> c = {std::cos(angle[0]), std::cos(angle[1]), std::cos(angle[2])};
  const std::array<double, 3> s = {std::sin(angle[0]), std::sin(angle[1]), std::sin(angle[2])};
  const Matrix about_d = {{{1, 0, 0}, {0, c[0], -s[0]}, {0, s[0], c[0]}}};
  const Matrix about_h = {{{c[1], 0, s[1]}, {0, 1, 0}, {-s[1], 0, c[1]}}};
  const Matrix about_w = {{{c[2], -s[2], 0}, {s[2], c[2], 0}, {0, 0, 1}}};
  return product(product(about_d, about_h), about_w);
}

Point centre_of(const Extent& size) {
  Point centre;
  for (size_t axis = 0; axis < 3; ++axis) centre[axis] = 0.5 * static_cast<double>(size[axis] - 1);
  return centre;
}

template <class T, class SampleRow>
void sample_rows(const FieldView<T>& in, const AffineMap& from_output, const Extent& size, T* out,
                 SampleRow&& sample_row) {
  const Point step = {from_output.linear[0][2], from_output.linear[1][2], from_output.linear[2][2]};
  const int64_t out_channel_step = voxels_of(size);
  for (int64_t z = 0; z < size[0]; ++z) {
    for (int64_t y = 0; y < size[1]; ++y, out += size[2]) {
      const Point start = from_output({static_cast<double>(z), static_cast<double>(y), 0.0});
      sample_row(in, SampledRow{start, step, size[2], out_channel_step}, out);
    }
  }
}

}  // namespace

Point AffineMap::operator()(const Point& x) const {
  Point place;
  for (size_t i = 0; i < 3; ++i) {
    place[i] = linear[i][0] * x[0] + linear[i][1] * x[1] + linear[i][2] * x[2] + offset[i];
  }
  return place;
}

AffineMap affine_map(const AffineParams& params) {
  const auto& s = params.shear;
  const Matrix shear = {{{1, s[0], s[1]}, {s[2], 1, s[3]}, {s[4], s[5], 1}}};
  AffineMap map;
  map.linear = product(rotation(params.rotate), shear);
  map.offset = map(params.translate);
  for (auto& row : map.linear) {
    for (size_t j = 0; j < 3; ++j) row[j] *= params.scale[j];
  }
  return map;
}

void resample_affine(VolumeItem& item, const AffineMap& map, const Extent& size, SampleMode mode,
                     PaddingMode padding, VolumeScratch& scratch) {
  AffineMap from_output = map;  // of places counted from the first voxel
  const Point out_centre = centre_of(size);
  const Point in_centre = centre_of(item.values.size);
  const Point shift = AffineMap{map.linear, {}}(out_centre);
  for (size_t axis = 0; axis < 3; ++axis) {
    from_output.offset[axis] += in_centre[axis] - shift[axis];
  }
  float* out = scratch.next_values(item.values.channels * voxels_of(size));
  sample_rows(item.values, from_output, size, out,
              [&](const FieldView<float>& in, const SampledRow& row, float* to) {
                if (mode == SampleMode::kLinear) {
                  sample_linear(in, row, padding, to);
                } else {
                  sample_nearest(in, row, padding, to);
                }
              });
  set_values(item, out, size);
  if (item.has_mask()) {
    int32_t* classes = scratch.next_classes(voxels_of(size));
    sample_rows(item.classes, from_output, size, classes,
                [&](const FieldView<int32_t>& in, const SampledRow& row, int32_t* to) {
                  sample_nearest(in, row, padding, to);
                });
    set_classes(item, classes, size);
  }
}

}  // namespace fovea::data
