// The resize of 8-bit images as a stream of rows: whole images or a window of the result, from any
// source of rows to any sink, with the arithmetic of Pillow. Results are Pillow's bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/resample_kernels.h"

namespace fovea::data {

enum class Interpolation { kNearest, kBilinear, kBicubic };

// One axis of a resize, in pixels. The stretch [origin, origin + extent) of the input becomes
// out_size pixels, of which [first, first + count) are wanted.
struct ResizeAxis {
  int64_t in_size = 0;  // pixels that may be looked at, from 0
  double origin = 0;
  double extent = 0;
  int64_t out_size = 0;
  int64_t first = 0;
  int64_t count = 0;

  // All of `in` pixels to all of `out`.
  static ResizeAxis whole(int64_t in, int64_t out) {
    return {.in_size = in, .extent = static_cast<double>(in), .out_size = out, .count = out};
  }
  // Whether pixels change: otherwise the window is copied.
  bool is_resampled() const { return origin != 0 || extent != static_cast<double>(out_size); }
};

// A half-open interval of rows or columns.
struct PixelRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

struct ResampleRequest {
  ResizeAxis vertical;
  ResizeAxis horizontal;
  Interpolation interpolation = Interpolation::kBilinear;  // not kNearest
  bool is_mirrored = false;  // columns of the result in reverse order: a horizontal flip
  int64_t channels = 3;
};

// Where the rows of an image come from, from the first to the last.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Rows y and, with count 2, y + 1, into rows[0] and rows[1]: [W, C] bytes with kRowSlack readable
  // bytes behind them, valid until the next call. y is even and grows.
  virtual void rows(int64_t y, int64_t count, const uint8_t** rows) = 0;
};

// Where the rows of a result go, from the first to the last.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // pixels: [W, C] bytes with kRowSlack readable bytes behind them.
  virtual void row(int64_t y, const uint8_t* pixels) = 0;
};

// The rows of pixels that lie in memory.
class ViewSource : public RowSource {
 public:
  // `copies` lends its memory: rows at the end of the pixels are copied to get their slack.
  ViewSource(const ImageView& view, std::vector<uint8_t>& copies);
  void rows(int64_t y, int64_t count, const uint8_t** rows) override;

 private:
  ImageView view_;
  std::vector<uint8_t>& copies_;
  int64_t row_room_;
};

// Collects rows as an image [H, W, C], which must have its size already.
class ImageSink : public RowSink {
 public:
  explicit ImageSink(Image& image) : image_(image) {}
  void row(int64_t y, const uint8_t* pixels) override;

 private:
  Image& image_;
};

// Keeps its buffers from image to image: one for each thread.
class Resampler {
 public:
  // Computes weights. Throws Error: a size that is not above 0.
  void prepare(const ResampleRequest& request);
  // What `run` reads of the input: row 0 of the source is row_range().begin.
  PixelRange row_range() const { return rows_; }
  PixelRange column_range() const { return columns_; }
  // Hands `vertical.count` rows of `horizontal.count` pixels to the sink.
  void run(RowSource& source, RowSink& sink);

 private:
  void produce(RowSource& source, int64_t row);
  const uint8_t* vertical_row(int64_t y, uint8_t* room);
  void finish_columns(const uint8_t* const* in, int64_t y, int64_t count, RowSink& sink);
  void mirror_row(const uint8_t* in, uint8_t* out) const;

  ResampleRequest request_;
  PixelRange rows_;
  PixelRange columns_;
  bool has_vertical_ = false;
  bool has_horizontal_ = false;
  bool starts_vertically_ = false;
  ResizeWeights vertical_;
  ResizeWeights horizontal_;
  // Rows between the passes, each used again as soon as no output needs it.
  std::vector<uint8_t> ring_;
  int64_t ring_rows_ = 0;
  int64_t ring_stride_ = 0;
  std::vector<uint8_t> results_;  // two rows after the vertical pass, two after the horizontal one
  std::vector<const uint8_t*> taps_;
};

}  // namespace fovea::data
