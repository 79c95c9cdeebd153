#include "fovea/data/transforms/volume/volume_view.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

// A tile of a transposition: few enough lines that equal addresses modulo the cache's size do not
// push each other out.
constexpr int64_t kTileRows = 16;
constexpr int64_t kTileColumns = 8;

// out[i * out_step + x] = in[i * step + x * column_step]: rows of `out` gather columns of `in`.
template <class T>
void copy_transposed(const T* in, int64_t rows, int64_t columns, int64_t step, int64_t column_step,
                     T* out, int64_t out_step) {
  for (int64_t i0 = 0; i0 < rows; i0 += kTileRows) {
    const int64_t i1 = std::min(i0 + kTileRows, rows);
    for (int64_t x0 = 0; x0 < columns; x0 += kTileColumns) {
      const int64_t x1 = std::min(x0 + kTileColumns, columns);
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t x = x0; x < x1; ++x) out[i * out_step + x] = in[i * step + x * column_step];
      }
    }
  }
}

// out[x] = in[-x]. Two functions, as a template has no clones for instruction sets.
FOVEA_SIMD void copy_reversed(const float* in, int64_t count, float* __restrict out) {
  const float* first = in - (count - 1);
#pragma omp simd
  for (int64_t x = 0; x < count; ++x) out[x] = first[count - 1 - x];
}

FOVEA_SIMD void copy_reversed(const int32_t* in, int64_t count, int32_t* __restrict out) {
  const int32_t* first = in - (count - 1);
#pragma omp simd
  for (int64_t x = 0; x < count; ++x) out[x] = first[count - 1 - x];
}

template <class T>
void copy_channel(const FieldView<T>& view, const T* in, T* out) {
  const auto [depth, height, width] = view.size;
  const Extent& steps = view.steps;
  if (std::abs(steps[2]) != 1 && std::abs(steps[1]) == 1) {
    for (int64_t z = 0; z < depth; ++z) {
      copy_transposed(in + z * steps[0], height, width, steps[1], steps[2],
                      out + z * height * width, width);
    }
  } else if (std::abs(steps[2]) != 1 && std::abs(steps[0]) == 1) {
    for (int64_t y = 0; y < height; ++y) {
      copy_transposed(in + y * steps[1], depth, width, steps[0], steps[2], out + y * width,
                      height * width);
    }
  } else {
    for (int64_t z = 0; z < depth; ++z) {
      for (int64_t y = 0; y < height; ++y, out += width) {
        copy_row(in + z * steps[0] + y * steps[1], width, steps[2], out);
      }
    }
  }
}

}  // namespace

template <class T>
void copy_row(const T* in, int64_t count, int64_t step, T* out) {
  if (step == 1) {
    std::memcpy(out, in, static_cast<size_t>(count) * sizeof(T));
  } else if (step == -1) {
    copy_reversed(in, count, out);
  } else {
    for (int64_t x = 0; x < count; ++x) out[x] = in[x * step];
  }
}

template <class T>
void copy_voxels(const FieldView<T>& view, T* out) {
  const int64_t voxels = voxels_of(view.size);
  if (view.is_dense()) {
    std::memcpy(out, view.first, static_cast<size_t>(view.channels * voxels) * sizeof(T));
    return;
  }
  for (int64_t c = 0; c < view.channels; ++c) {
    copy_channel(view, view.first + c * view.channel_step, out + c * voxels);
  }
}

template void copy_row(const float* in, int64_t count, int64_t step, float* out);
template void copy_row(const int32_t* in, int64_t count, int64_t step, int32_t* out);
template void copy_voxels(const FieldView<float>& view, float* out);
template void copy_voxels(const FieldView<int32_t>& view, int32_t* out);

void set_values(VolumeItem& item, const float* out, const Extent& size) {
  item.values = FieldView<float>::dense(out, item.values.channels, size);
  item.is_owned = true;
}

void set_classes(VolumeItem& item, const int32_t* out, const Extent& size) {
  item.classes = FieldView<int32_t>::dense(out, 1, size);
}

float* own_values(VolumeItem& item, VolumeScratch& scratch) {
  if (!item.is_owned || !item.values.is_dense()) {
    float* out = scratch.next_values(item.values.channels * voxels_of(item.values.size));
    copy_voxels(item.values, out);
    set_values(item, out, item.values.size);
  }
  return const_cast<float*>(item.values.first);  // a buffer of `scratch`
}

Extent size_or(const std::vector<int64_t>& wanted, const Extent& fallback) {
  Extent size;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t side = wanted.size() == 1 ? wanted[0] : wanted[axis];
    size[axis] = side > 0 ? side : fallback[axis];
  }
  return size;
}

}  // namespace fovea::data
