// The rows of an image, wherever it lies, as edges are sought in them and patches are cut from
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/large_image/region_source.h"

namespace fovea::data::patching {

// An image that is read once, from above, row by row: as a view of memory, or from a file.
struct ImageRows {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  // Row y [W, C], valid until the next call; asked for in the order of y.
  std::function<const uint8_t*(int64_t y)> row;
};
// The view outlives the result, which so fits into a function object without memory of its own.
ImageRows rows_of(const ImageView& image);

// The rows of a large image with one channel of it, or all: bytes as they are, or any other kind as
// floats.
template <class T>
class ChannelRows {
 public:
  // channel: only this one; -1: all. T is uint8_t for bytes, float for anything else.
  ChannelRows(const RegionSource& source, int64_t channel, int64_t band_bytes);
  int64_t channels() const { return last_ - first_; }
  // Row y [W, channels()]; valid until the next call, in ascending order.
  const T* row(int64_t y);

 private:
  const RegionSource& source_;
  RegionRows rows_;
  int64_t first_ = 0, last_ = 0;
  int64_t loaded_ = -1;        // what floats_ and chosen_ hold
  std::vector<float> floats_;  // [W, all channels]
  std::vector<T> chosen_;      // [W, channels()]
};

extern template class ChannelRows<uint8_t>;
extern template class ChannelRows<float>;

// An image of floats, read as ImageRows are: values `step` elements apart.
struct FieldRow {
  const float* first = nullptr;
  int64_t step = 1;
};
struct FieldRows {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::function<FieldRow(int64_t y, int64_t channel)> row;
};

// Buffers that a thread keeps from field to field.
struct FieldScratch {
  std::vector<float> plane;    // [W] of one channel
  std::vector<float> ring;     // rows blurred along themselves
  std::vector<uint8_t> bytes;  // [W] of one channel
  std::vector<uint8_t> row;    // [W, C]
};

// A field on its way to edges: blurred, then on a scale of bytes from black to white.
class FieldBytes {
 public:
  // blur_size: 1, 3 or 5. field and scratch outlive this.
  FieldBytes(const FieldRows& field, int64_t blur_size, double black, double white,
             FieldScratch& scratch);
  // It outlives the result.
  ImageRows rows();

 private:
  float* blurred_along(int64_t y, int64_t channel);
  void load(int64_t y);
  const uint8_t* row(int64_t y);

  const FieldRows& field_;
  int64_t blur_size_;
  double black_, white_;
  FieldScratch& scratch_;
  int64_t loaded_ = 0;
};

}  // namespace fovea::data::patching
