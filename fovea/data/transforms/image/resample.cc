#include "fovea/data/transforms/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

// Keys 1981, a = -0.5, in the order of operations that Pillow uses.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

// The filter over an axis: which inputs an output looks at, and how much.
class Filter {
 public:
  Filter(const ResizeAxis& axis, Interpolation interpolation)
      : axis_(axis),
        is_cubic_(interpolation == Interpolation::kBicubic),
        scale_(axis.extent / static_cast<double>(axis.out_size)),
        filter_scale_(std::max(scale_, 1.0)),
        support_((is_cubic_ ? 2.0 : 1.0) * filter_scale_) {}

  PixelRange range_of(int64_t i) const {
    const double center = center_of(i);
    return {std::max<int64_t>(static_cast<int64_t>(center - support_ + 0.5), 0),
            std::min<int64_t>(static_cast<int64_t>(center + support_ + 0.5), axis_.in_size)};
  }
  // Weights of output i, fixed point, behind each other in `fixed`.
  void weights_of(int64_t i, PixelRange range, std::vector<double>& exact, int32_t* fixed) const {
    const double center = center_of(i);
    const double inverse_scale = 1.0 / filter_scale_;
    double sum = 0;
    for (int64_t k = 0; k < range.size(); ++k) {
      const double x = (static_cast<double>(k + range.begin) - center + 0.5) * inverse_scale;
      exact[k] = is_cubic_ ? cubic(x) : triangle(x);
      sum += exact[k];
    }
    for (int64_t k = 0; k < range.size(); ++k) {
      const double weight = sum != 0.0 ? exact[k] / sum : exact[k];
      const double rounding = weight < 0 ? -0.5 : 0.5;
      fixed[k] = static_cast<int32_t>(rounding + weight * (1 << kResizeFractionBits));
    }
  }

 private:
  double center_of(int64_t i) const {
    return axis_.origin + (static_cast<double>(i) + 0.5) * scale_;
  }

  const ResizeAxis& axis_;
  bool is_cubic_;
  double scale_;
  double filter_scale_;
  double support_;
};

int32_t pack(int32_t first, int32_t second) {
  return static_cast<int32_t>(static_cast<uint32_t>(first & 0xFFFF) | static_cast<uint32_t>(second)
                                                                          << 16);
}

// The inputs that the outputs of the window look at. Every output takes the same number of taps, so
// those at the end start earlier, with weights 0 in front.
PixelRange compute_weights(const ResizeAxis& axis, Interpolation interpolation, bool is_reversed,
                           ResizeWeights& result) {
  const Filter filter(axis, interpolation);
  result.count = axis.count;
  result.taps = 0;
  for (int64_t i = 0; i < axis.count; ++i) {
    result.taps = std::max(result.taps, filter.range_of(axis.first + i).size());
  }
  result.pairs = (result.taps + 1) / 2;
  const int64_t padded = (axis.count + 3) / 4 * 4;
  result.starts.assign(static_cast<size_t>(padded), 0);
  result.packed.assign(static_cast<size_t>(padded * result.pairs * 2), 0);
  result.exact.resize(static_cast<size_t>(result.taps));
  result.fixed.resize(static_cast<size_t>(2 * result.pairs));
  const auto start_of = [&](PixelRange range) {
    return std::min(range.begin, axis.in_size - result.taps);
  };
  const PixelRange read = {start_of(filter.range_of(axis.first)),
                           start_of(filter.range_of(axis.first + axis.count - 1)) + result.taps};
  for (int64_t i = 0; i < axis.count; ++i) {
    const PixelRange range = filter.range_of(axis.first + i);
    const int64_t start = start_of(range);
    std::fill(result.fixed.begin(), result.fixed.end(), 0);
    filter.weights_of(axis.first + i, range, result.exact,
                      result.fixed.data() + (range.begin - start));
    const int64_t place = is_reversed ? axis.count - 1 - i : i;
    result.starts[place] = static_cast<int32_t>(start - read.begin);
    int32_t* packed = result.packed.data() + place * result.pairs * 2;
    for (int64_t p = 0; p < result.pairs; ++p) {
      const int32_t first = result.fixed[2 * p], second = result.fixed[2 * p + 1];
      packed[2 * p] = pack(first >> 8, second >> 8);
      packed[2 * p + 1] = pack(first & 0xFF, second & 0xFF);
    }
  }
  return read;
}

void check_axis(const ResizeAxis& axis) {
  FOVEA_CHECK(axis.in_size > 0 && axis.extent > 0 && axis.count > 0 && axis.first >= 0 &&
                  axis.first + axis.count <= axis.out_size,
              "resize from {} to {} pixels, of which {} from {}; sizes must be above 0",
              axis.in_size, axis.out_size, axis.count, axis.first);
}

}  // namespace

ViewSource::ViewSource(const ImageView& view, std::vector<uint8_t>& copies)
    : view_(view), copies_(copies), row_room_(view.width * view.channels + kRowSlack) {
  copies_.resize(static_cast<size_t>(2 * row_room_));
}

void ViewSource::rows(int64_t y, int64_t count, const uint8_t** rows) {
  const int64_t row_bytes = row_room_ - kRowSlack;
  for (int64_t i = 0; i < count; ++i) {
    rows[i] = view_.row(y + i);
    // Bytes from here to the end of the last row, as far as the rows follow each other.
    const int64_t left = (view_.height - 1 - y - i) * view_.row_stride + row_bytes;
    if (left >= row_room_) continue;
    uint8_t* copy = copies_.data() + i * row_room_;
    std::memcpy(copy, rows[i], static_cast<size_t>(row_bytes));
    rows[i] = copy;
  }
}

void ImageSink::row(int64_t y, const uint8_t* pixels) {
  const int64_t row_bytes = image_.width * image_.channels;
  std::memcpy(image_.pixels.data() + y * row_bytes, pixels, static_cast<size_t>(row_bytes));
}

void Resampler::prepare(const ResampleRequest& request) {
  check_axis(request.vertical);
  check_axis(request.horizontal);
  FOVEA_CHECK(request.interpolation != Interpolation::kNearest, "nearest is not a filter");
  request_ = request;
  const ResizeAxis& vertical = request.vertical;
  const ResizeAxis& horizontal = request.horizontal;
  has_vertical_ = vertical.is_resampled();
  has_horizontal_ = horizontal.is_resampled();
  rows_ = {vertical.first, vertical.first + vertical.count};
  columns_ = {horizontal.first, horizontal.first + horizontal.count};
  if (has_vertical_) rows_ = compute_weights(vertical, request.interpolation, false, vertical_);
  if (has_horizontal_) {
    columns_ = compute_weights(horizontal, request.interpolation, request.is_mirrored, horizontal_);
  }
  // Rows are rounded to bytes between the passes, so their order shows in the last bit. Pillow 13.0
  // starts vertically where the height loses more than twice the pixels that the width loses.
  const double lost_rows = vertical.extent - static_cast<double>(vertical.out_size);
  const double lost_columns = horizontal.extent - static_cast<double>(horizontal.out_size);
  starts_vertically_ =
      has_vertical_ && has_horizontal_ && lost_rows > 0 && lost_rows > 2 * lost_columns;
  const int64_t ring_width =
      has_horizontal_ && !starts_vertically_ ? horizontal.count : columns_.size();
  ring_rows_ = has_vertical_ ? vertical_.taps / 2 * 2 + 2 : 2;
  ring_stride_ = std::max(ring_width, horizontal.count) * request.channels + kRowSlack;
  ring_.resize(static_cast<size_t>(ring_rows_ * ring_stride_));
  results_.resize(static_cast<size_t>(4 * ring_stride_));
  if (has_vertical_) taps_.resize(static_cast<size_t>(2 * vertical_.pairs));
}

// Rows `row` and `row` + 1 of the source into the ring, after the horizontal pass where it is
// first.
void Resampler::produce(RowSource& source, int64_t row) {
  const int64_t count = std::min<int64_t>(2, rows_.size() - row);
  const uint8_t* in[2] = {nullptr, nullptr};
  source.rows(row, count, in);
  uint8_t* const out[2] = {ring_.data() + row % ring_rows_ * ring_stride_,
                           ring_.data() + (row + 1) % ring_rows_ * ring_stride_};
  if (has_horizontal_ && !starts_vertically_) {
    resize_columns(in, count, request_.channels, horizontal_, out);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (request_.is_mirrored && !has_horizontal_) {
      mirror_row(in[i], out[i]);
    } else {
      std::memcpy(out[i], in[i], static_cast<size_t>(columns_.size() * request_.channels));
    }
  }
}

void Resampler::mirror_row(const uint8_t* in, uint8_t* out) const {
  const int64_t channels = request_.channels;
  const uint8_t* pixel = in + (columns_.size() - 1) * channels;
  for (int64_t x = 0; x < columns_.size(); ++x, pixel -= channels, out += channels) {
    for (int64_t c = 0; c < channels; ++c) out[c] = pixel[c];
  }
}

// Output row y of the vertical pass, in `room` or where it lies already.
const uint8_t* Resampler::vertical_row(int64_t y, uint8_t* room) {
  const auto ring_row = [&](int64_t row) { return ring_.data() + row % ring_rows_ * ring_stride_; };
  if (!has_vertical_) return ring_row(y);
  for (int64_t k = 0; k < 2 * vertical_.pairs; ++k) {
    taps_[k] = ring_row(vertical_.starts[y] + std::min(k, vertical_.taps - 1));
  }
  const int64_t width =
      starts_vertically_ || !has_horizontal_ ? columns_.size() : request_.horizontal.count;
  resize_rows(taps_.data(), vertical_, y, width * request_.channels, room);
  return room;
}

// Output rows y and, with count 2, y + 1: the horizontal pass where it is the second.
void Resampler::finish_columns(const uint8_t* const* in, int64_t y, int64_t count, RowSink& sink) {
  uint8_t* const out[2] = {results_.data() + 2 * ring_stride_, results_.data() + 3 * ring_stride_};
  resize_columns(in, count, request_.channels, horizontal_, out);
  for (int64_t i = 0; i < count; ++i) sink.row(y + i, out[i]);
}

void Resampler::run(RowSource& source, RowSink& sink) {
  const int64_t out_rows = request_.vertical.count;
  const uint8_t* waiting[2] = {nullptr, nullptr};
  int64_t produced = 0;
  for (int64_t y = 0; y < out_rows; ++y) {
    const int64_t needed = has_vertical_ ? vertical_.starts[y] + vertical_.taps : y + 1;
    for (; produced < needed; produced += 2) produce(source, produced);
    const uint8_t* row = vertical_row(y, results_.data() + y % 2 * ring_stride_);
    if (!starts_vertically_) {
      sink.row(y, row);
      continue;
    }
    waiting[y % 2] = row;
    if (y % 2 == 1) {
      finish_columns(waiting, y - 1, 2, sink);
    } else if (y + 1 == out_rows) {
      finish_columns(waiting, y, 1, sink);
    }
  }
}

}  // namespace fovea::data
