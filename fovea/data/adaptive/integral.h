// Summed-area tables (Crow 1984): the sum over any box in a constant number of steps.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/adaptive/tree.h"

namespace fovea::data::patching {

// Sum: uint32_t where all values together stay below 2^32, else uint64_t.
template <class Sum>
class IntegralVolume {
 public:
  // values [D, H, W]. Bytes must be below 32.
  void build(const uint8_t* values, VolumeSize size) { build_from(values, size); }
  void build(const uint16_t* values, VolumeSize size) { build_from(values, size); }
  void build(const uint32_t* values, VolumeSize size) { build_from(values, size); }

  Sum sum(const Box& box) const {
    const Sum* front = plane(box.z + box.depth);
    const Sum area = plane_sum(front, box);
    return depth_ == 1 ? area : area - plane_sum(plane(box.z), box);
  }

 private:
  template <class Value>
  void build_from(const Value* values, VolumeSize size);

  // Sums of all slices before z. One slice needs no table of zeros before it.
  const Sum* plane(int64_t z) const { return sums_.data() + (depth_ == 1 ? 0 : z * plane_size_); }
  Sum plane_sum(const Sum* table, const Box& box) const {
    const Sum* top = table + box.y * stride_ + box.x;
    const Sum* bottom = top + box.height * stride_;
    return bottom[box.width] - bottom[0] - top[box.width] + top[0];
  }

  int64_t depth_ = 0;
  int64_t stride_ = 0;  // W + 1
  int64_t plane_size_ = 0;
  std::vector<Sum> sums_;  // [D + 1, H + 1, W + 1]; of one slice: [H + 1, W + 1]
};

extern template class IntegralVolume<uint32_t>;
extern template class IntegralVolume<uint64_t>;

}  // namespace fovea::data::patching
