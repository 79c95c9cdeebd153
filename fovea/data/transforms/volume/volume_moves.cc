#include "fovea/data/transforms/volume/volume_moves.h"

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

template <class T>
void crop_field(FieldView<T>& field, const Extent& start, const Extent& size) {
  for (size_t axis = 0; axis < 3; ++axis) field.first += start[axis] * field.steps[axis];
  field.size = size;
}

template <class T>
void flip_field(FieldView<T>& field, size_t axis) {
  field.first += (field.size[axis] - 1) * field.steps[axis];
  field.steps[axis] = -field.steps[axis];
}

template <class T>
void swap_axes(FieldView<T>& field, size_t a, size_t b) {
  std::swap(field.size[a], field.size[b]);
  std::swap(field.steps[a], field.steps[b]);
}

void swap_axes(VolumeItem& item, size_t a, size_t b) {
  swap_axes(item.values, a, b);
  if (item.has_mask()) swap_axes(item.classes, a, b);
  std::swap(item.spacing[a], item.spacing[b]);
}

// The voxel of an axis of `count` that place `at` repeats; -1: none, it is constant.
int64_t source_of(int64_t at, int64_t count, VolumePadMode mode) {
  if (at >= 0 && at < count) return at;
  switch (mode) {
    case VolumePadMode::kConstant:
      return -1;
    case VolumePadMode::kEdge:
      return std::clamp<int64_t>(at, 0, count - 1);
    case VolumePadMode::kReflect: {
      if (count == 1) return 0;
      const int64_t period = 2 * (count - 1);
      const int64_t within = ((at % period) + period) % period;
      return within < count ? within : period - within;
    }
    case VolumePadMode::kWrap:
      return ((at % count) + count) % count;
  }
  return -1;
}

template <class T>
void pad_row(const T* in, int64_t count, int64_t step, const Padding& padding, T value, T* out) {
  const int64_t before = padding.before[2];
  const int64_t after = padding.after[2];
  const auto padded = [&](int64_t at) {
    const int64_t from = source_of(at, count, padding.mode);
    return from < 0 ? value : in[from * step];
  };
  for (int64_t x = 0; x < before; ++x) out[x] = padded(x - before);
  copy_row(in, count, step, out + before);
  for (int64_t x = 0; x < after; ++x) out[before + count + x] = padded(count + x);
}

template <class T>
void pad_field(const FieldView<T>& in, const Padding& padding, T value, const Extent& size,
               T* out) {
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t z = 0; z < size[0]; ++z) {
      const int64_t from_z = source_of(z - padding.before[0], in.size[0], padding.mode);
      for (int64_t y = 0; y < size[1]; ++y, out += size[2]) {
        const int64_t from_y = source_of(y - padding.before[1], in.size[1], padding.mode);
        if (from_z < 0 || from_y < 0) {
          std::fill_n(out, size[2], value);
        } else {
          pad_row(in.row(c, from_z, from_y), in.size[2], in.steps[2], padding, value, out);
        }
      }
    }
  }
}

}  // namespace

void crop(VolumeItem& item, const Extent& start, const Extent& size) {
  crop_field(item.values, start, size);
  if (item.has_mask()) crop_field(item.classes, start, size);
}

void flip(VolumeItem& item, int axis) {
  const auto at = static_cast<size_t>(axis);
  flip_field(item.values, at);
  if (item.has_mask()) flip_field(item.classes, at);
}

void rotate90(VolumeItem& item, int64_t k, int a, int b) {
  for (int64_t turn = 0; turn < k; ++turn) {
    flip(item, b);
    swap_axes(item, static_cast<size_t>(a), static_cast<size_t>(b));
  }
}

VolumePadMode volume_pad_mode_from_name(const std::string& name) {
  if (name == "constant") return VolumePadMode::kConstant;
  if (name == "edge") return VolumePadMode::kEdge;
  if (name == "reflect") return VolumePadMode::kReflect;
  if (name == "wrap") return VolumePadMode::kWrap;
  fail<ConfigError>("mode={}; expected constant, edge, reflect or wrap", name);
}

void pad(VolumeItem& item, const Padding& padding, VolumeScratch& scratch) {
  Extent size = item.values.size;
  for (size_t axis = 0; axis < 3; ++axis) size[axis] += padding.before[axis] + padding.after[axis];
  if (size == item.values.size) return;
  float* out = scratch.next_values(item.values.channels * voxels_of(size));
  pad_field(item.values, padding, padding.value, size, out);
  set_values(item, out, size);
  if (item.has_mask()) {
    int32_t* classes = scratch.next_classes(voxels_of(size));
    pad_field(item.classes, padding, padding.mask_value, size, classes);
    set_classes(item, classes, size);
  }
}

}  // namespace fovea::data
