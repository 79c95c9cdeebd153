#include "fovea/data/transforms/image/first_crop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/data/image/exif.h"
#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {
namespace {

class JpegSource : public RowSource {
 public:
  JpegSource(JpegReader& reader, StageTimer* timer) : reader_(reader), timer_(timer) {}
  void rows(int64_t, int64_t count, const uint8_t** rows) override {
    const StageScope scope(timer_, Stage::kDecode);
    reader_.read_rows(count, rows);
  }

 private:
  JpegReader& reader_;
  StageTimer* timer_;
};

// One axis of a box: its pixels are `first` and those after it of a decoded image.
struct Stretch {
  int64_t first = 0;
  ResizeAxis axis;
};

// [position, position + length) of an axis of `side` pixels, which the decoder shrinks as a whole,
// from the end that is stored first.
Stretch scaled_stretch(int64_t position, int64_t length, int64_t side, bool is_mirrored,
                       int denominator) {
  if (denominator == 1) {
    return {position, {.in_size = length, .extent = static_cast<double>(length)}};
  }
  const int64_t scaled = scaled_side(side, denominator);
  const auto divide = [&](int64_t a) { return static_cast<double>(a) / denominator; };
  const double begin =
      is_mirrored ? static_cast<double>(scaled) - divide(side - position) : divide(position);
  const double end = begin + divide(length);
  const auto first = static_cast<int64_t>(std::floor(begin));
  const int64_t last = std::min(static_cast<int64_t>(std::ceil(end)), scaled);
  return {first,
          {.in_size = last - first,
           .origin = begin - static_cast<double>(first),
           .extent = divide(length)}};
}

ResampleRequest request_of(const FirstCrop& crop, const Stretch& vertical,
                           const Stretch& horizontal, int64_t channels) {
  ResampleRequest request = {.vertical = vertical.axis,
                             .horizontal = horizontal.axis,
                             .interpolation = crop.interpolation,
                             .is_mirrored = crop.is_mirrored,
                             .channels = channels};
  request.vertical.out_size = crop.resized.height;
  request.vertical.first = crop.window.top;
  request.vertical.count = crop.window.size.height;
  request.horizontal.out_size = crop.resized.width;
  request.horizontal.first = crop.window.left;
  request.horizontal.count = crop.window.size.width;
  return request;
}

PixelRange shifted(PixelRange range, int64_t by) { return {range.begin + by, range.end + by}; }

// Rows or columns of a turned image in the stored one of `side` rows or columns.
PixelRange stored_range(PixelRange range, int64_t side, bool is_mirrored) {
  return is_mirrored ? PixelRange{side - range.end, side - range.begin} : range;
}

void run_resampler(RowSource& source, FirstCropScratch& scratch, RowSink& sink) {
  const StageScope scope(scratch.timer, Stage::kResize);
  scratch.resampler.run(source, sink);
}

// The rows that the reader has begun, into scratch.region.
void read_region(ImageSize size, int64_t channels, FirstCropScratch& scratch) {
  reshape(scratch.region, size, channels);
  const int64_t row_bytes = size.width * channels;
  for (int64_t y = 0; y < size.height; ++y) {
    const uint8_t* row = nullptr;
    scratch.reader.read_rows(1, &row);
    std::memcpy(scratch.region.pixels.data() + y * row_bytes, row, static_cast<size_t>(row_bytes));
  }
}

}  // namespace

std::optional<FirstCrop> plan_first_crop(const std::vector<TransformConfig>& transforms,
                                         ImageSize image, RandomStream& random, size_t& used) {
  used = 0;
  if (transforms.empty()) return std::nullopt;
  auto crop = transforms[0]->first_crop(image, random);
  if (!crop) return crop;
  for (used = 1; used < transforms.size() && transforms[used]->join(*crop, random);) ++used;
  return crop;
}

int scaled_decode_denominator(const FirstCrop& crop) {
  for (const int denominator : {8, 4, 2}) {
    if (crop.may_scale && crop.box.size.height >= denominator * crop.resized.height &&
        crop.box.size.width >= denominator * crop.resized.width) {
      return denominator;
    }
  }
  return 1;
}

void crop_jpeg(const FirstCrop& crop, int64_t channels, FirstCropScratch& scratch, RowSink& sink) {
  JpegReader& reader = scratch.reader;
  const int denominator = scaled_decode_denominator(crop);
  const Turn turn = turn_of(reader.orientation());
  const ImageSize stored = reader.stored_size();
  const ImageSize size = reader.size();
  const bool is_mirrored_y = turn.is_transposed ? turn.is_mirrored_x : turn.is_mirrored_y;
  const bool is_mirrored_x = turn.is_transposed ? turn.is_mirrored_y : turn.is_mirrored_x;
  const StageScope resizing(scratch.timer, Stage::kResize);
  const Stretch vertical =
      scaled_stretch(crop.box.top, crop.box.size.height, size.height, is_mirrored_y, denominator);
  const Stretch horizontal =
      scaled_stretch(crop.box.left, crop.box.size.width, size.width, is_mirrored_x, denominator);
  scratch.resampler.prepare(request_of(crop, vertical, horizontal, channels));

  const PixelRange rows = shifted(scratch.resampler.row_range(), vertical.first);
  const PixelRange columns = shifted(scratch.resampler.column_range(), horizontal.first);
  const PixelRange stored_rows =
      stored_range(turn.is_transposed ? columns : rows, scaled_side(stored.height, denominator),
                   turn.is_mirrored_y);
  const PixelRange stored_columns =
      stored_range(turn.is_transposed ? rows : columns, scaled_side(stored.width, denominator),
                   turn.is_mirrored_x);
  const PixelBox box = {
      stored_rows.begin, stored_columns.begin, {stored_rows.size(), stored_columns.size()}};
  const StageScope decoding(scratch.timer, Stage::kDecode);
  reader.start(box, denominator, channels);
  if (reader.orientation() == 1) {
    JpegSource source(reader, scratch.timer);
    run_resampler(source, scratch, sink);
    reader.finish();
    return;
  }
  read_region(box.size, channels, scratch);
  reader.finish();
  orient(scratch.region, reader.orientation(), scratch.turned);
  ViewSource source(ImageView(scratch.region), scratch.copies);
  run_resampler(source, scratch, sink);
}

void crop_image(const FirstCrop& crop, const ImageView& image, FirstCropScratch& scratch,
                RowSink& sink) {
  const StageScope resizing(scratch.timer, Stage::kResize);
  const PixelBox& box = crop.box;
  scratch.resampler.prepare(request_of(
      crop, {box.top, ResizeAxis::whole(box.size.height, crop.resized.height)},
      {box.left, ResizeAxis::whole(box.size.width, crop.resized.width)}, image.channels));
  const PixelRange rows = shifted(scratch.resampler.row_range(), box.top);
  const PixelRange columns = shifted(scratch.resampler.column_range(), box.left);
  ViewSource source(image.crop(rows.begin, columns.begin, {rows.size(), columns.size()}),
                    scratch.copies);
  run_resampler(source, scratch, sink);
}

}  // namespace fovea::data
