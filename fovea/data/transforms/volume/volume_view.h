// Windows into voxels, and the sample as transforms of volumes hand it on. Crops, flips and quarter
// turns only change a window; whoever needs voxels in order copies them once.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::data {

using Extent = std::array<int64_t, 3>;  // voxels, or places of voxels, along D, H, W

inline Extent extent_of(const VolumeSize& size) { return {size.depth, size.height, size.width}; }
inline VolumeSize size_of(const Extent& extent) { return {extent[0], extent[1], extent[2]}; }
inline int64_t voxels_of(const Extent& extent) { return extent[0] * extent[1] * extent[2]; }

// Voxels of T that somebody else owns, [C, D, H, W] with any steps. T is float or int32_t.
template <class T>
struct FieldView {
  const T* first = nullptr;  // voxel (0, 0, 0) of channel 0; nullptr: there is no field
  int64_t channels = 0;
  Extent size = {};
  int64_t channel_step = 0;  // elements from a channel to the next
  Extent steps = {};         // elements to the next voxel along D, H, W

  static FieldView dense(const T* first, int64_t channels, const Extent& size) {
    return {first, channels, size, voxels_of(size), {size[1] * size[2], size[2], 1}};
  }
  const T* row(int64_t channel, int64_t z, int64_t y) const {
    return first + channel * channel_step + z * steps[0] + y * steps[1];
  }
  bool is_dense() const {
    return steps == Extent{size[1] * size[2], size[2], 1} && channel_step == voxels_of(size);
  }
};

// Writes the voxels in order, [C, D, H, W], to `out`, which the view must not look at.
template <class T>
void copy_voxels(const FieldView<T>& view, T* out);

// out[x] = in[x * step].
template <class T>
void copy_row(const T* in, int64_t count, int64_t step, T* out);

// A sample on its way through the transforms.
struct VolumeItem {
  FieldView<float> values;
  FieldView<int32_t> classes;                 // of one channel; of none where there is no mask
  std::array<double, 3> spacing = {1, 1, 1};  // along D, H, W, in millimetres
  bool is_owned = false;                      // values lie in a buffer of the scratch

  bool has_mask() const { return classes.first != nullptr; }
};

// Where each voxel of an axis comes from: low + weight * (high - low), or one voxel.
struct AxisSamples {
  std::vector<int32_t> low;     // [out size]
  std::vector<int32_t> high;    // [out size]
  std::vector<float> weight;    // [out size] of `high`
  std::vector<float> presence;  // [out size] 1; between 1 and 0 where padding with zeros takes part
  std::vector<int32_t> nearest;  // [out size]; -1: outside, for padding with zeros
};

// What a thread keeps from sample to sample, so that steady state allocates nothing.
struct VolumeScratch {
  VolumeItem item;
  std::vector<float> values[2];
  std::vector<int32_t> classes[2];
  int next_of_values = 0;
  int next_of_classes = 0;
  AxisSamples samples[3];
  std::vector<float> row;
  std::vector<float> kernel;
  std::vector<int64_t> counts;
  Volume volume;  // an image as a volume

  // The buffer that the item does not look at, for `count` elements. It never shrinks: growing
  // again would write zeros first.
  float* next_values(int64_t count) {
    auto& buffer = values[next_of_values ^= 1];
    return grown(buffer, count);
  }
  int32_t* next_classes(int64_t count) {
    auto& buffer = classes[next_of_classes ^= 1];
    return grown(buffer, count);
  }
  template <class T>
  static T* grown(std::vector<T>& buffer, int64_t count) {
    if (static_cast<int64_t>(buffer.size()) < count) buffer.resize(static_cast<size_t>(count));
    return buffer.data();
  }
};

// Values in order in a buffer of the scratch, free to be changed in place. Returns the buffer.
float* own_values(VolumeItem& item, VolumeScratch& scratch);

// Replaces the values (or the mask) by what `out`, a buffer of the scratch, holds in order.
void set_values(VolumeItem& item, const float* out, const Extent& size);
void set_classes(VolumeItem& item, const int32_t* out, const Extent& size);

// An axis with 0 or less keeps the volume's length; one number serves all axes.
Extent size_or(const std::vector<int64_t>& wanted, const Extent& fallback);

// Between which sizes a volume lies; equal ends: the size is known.
struct ExtentRange {
  Extent least = {1, 1, 1};
  Extent most = {kUnbounded, kUnbounded, kUnbounded};
  static constexpr int64_t kUnbounded = std::numeric_limits<int32_t>::max();

  bool is_known() const { return least == most; }
};

}  // namespace fovea::data
