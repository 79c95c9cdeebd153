#include "fovea/data/adaptive/integral.h"

#include <algorithm>
#include <cstring>

#include "fovea/core/simd.h"
#include "fovea/data/adaptive/huge_pages.h"

namespace fovea::data::patching {
namespace {

// out[x] = above[x] + in[0] + ... + in[x]. A product with 0x0101... leaves in each byte the sum of
// the bytes up to it: eight steps of the chain at once.
template <class Sum>
inline __attribute__((always_inline)) void sum_row_of(const uint8_t* in, int64_t width,
                                                      const Sum* above, Sum* out) {
  Sum total = 0;
  int64_t x = 0;
  for (; x + 8 <= width; x += 8) {
    uint64_t sums = 0;
    std::memcpy(&sums, in + x, 8);
    sums *= 0x0101010101010101ULL;
    uint8_t bytes[8];
    std::memcpy(bytes, &sums, 8);
    for (int i = 0; i < 8; ++i) out[x + i] = above[x + i] + total + bytes[i];
    total += static_cast<Sum>(sums >> 56);
  }
  for (; x < width; ++x) {
    total += in[x];
    out[x] = above[x] + total;
  }
}

template <class Sum, class Value>
inline __attribute__((always_inline)) void sum_row_of(const Value* in, int64_t width,
                                                      const Sum* above, Sum* out) {
  Sum total = 0;
  for (int64_t x = 0; x < width; ++x) {
    total += in[x];
    out[x] = above[x] + total;
  }
}

template <class Sum>
inline __attribute__((always_inline)) void add_slice_of(const Sum* before, const Sum* before_above,
                                                        int64_t width, Sum* out) {
  for (int64_t x = 0; x < width; ++x) out[x] += before[x] - before_above[x];
}

FOVEA_SIMD void sum_row(const uint8_t* in, int64_t width, const uint32_t* above, uint32_t* out) {
  sum_row_of(in, width, above, out);
}
FOVEA_SIMD void sum_row(const uint8_t* in, int64_t width, const uint64_t* above, uint64_t* out) {
  sum_row_of(in, width, above, out);
}
template <class Sum, class Value>
void sum_row(const Value* in, int64_t width, const Sum* above, Sum* out) {
  sum_row_of(in, width, above, out);
}

FOVEA_SIMD void add_slice(const uint32_t* before, const uint32_t* before_above, int64_t width,
                          uint32_t* out) {
  add_slice_of(before, before_above, width, out);
}
FOVEA_SIMD void add_slice(const uint64_t* before, const uint64_t* before_above, int64_t width,
                          uint64_t* out) {
  add_slice_of(before, before_above, width, out);
}

}  // namespace

template <class Sum>
template <class Value>
void IntegralVolume<Sum>::build_from(const Value* values, VolumeSize size) {
  depth_ = size.depth;
  stride_ = size.width + 1;
  plane_size_ = stride_ * (size.height + 1);
  const int64_t planes = depth_ == 1 ? 1 : depth_ + 1;
  resize_large(sums_, static_cast<size_t>(planes * plane_size_));
  if (depth_ > 1) std::fill_n(sums_.begin(), plane_size_, Sum{0});
  for (int64_t z = 0; z < depth_; ++z) {
    Sum* slice = sums_.data() + (planes - depth_ + z) * plane_size_;
    std::fill_n(slice, stride_, Sum{0});
    for (int64_t y = 0; y < size.height; ++y, values += size.width) {
      const Sum* above = slice + y * stride_;
      Sum* row = slice + (y + 1) * stride_;
      row[0] = 0;
      sum_row(values, size.width, above + 1, row + 1);
      if (depth_ == 1) continue;
      add_slice(row - plane_size_ + 1, above - plane_size_ + 1, size.width, row + 1);
    }
  }
}

template class IntegralVolume<uint32_t>;
template class IntegralVolume<uint64_t>;

}  // namespace fovea::data::patching
