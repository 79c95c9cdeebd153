// JPEG through libjpeg-turbo: whole images, and only what a crop needs of one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "fovea/data/dataset.h"
#include "fovea/data/image/image_view.h"

namespace fovea::data {

bool is_jpeg(std::span<const uint8_t> bytes);

// As decode_image, messages without the name of the file. Thread-safe; each thread keeps its
// decoder.
void decode_jpeg(std::span<const uint8_t> bytes, Image& image);

// The side of an image decoded at 1 / denominator: 1, 2, 4 or 8.
constexpr int64_t scaled_side(int64_t side, int denominator) {
  return (side + denominator - 1) / denominator;
}

// A JPEG that is decoded from the top to where the last wanted row ends. Memory is kept from image
// to image: one reader for each thread.
class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Reads the header; `bytes` must stay until the last row is read. Throws DataError: damaged,
  // truncated, too large.
  void open(std::span<const uint8_t> bytes);
  ImageSize stored_size() const;  // as the rows lie in the file, before the orientation
  ImageSize size() const;         // after the orientation
  int orientation() const;        // EXIF, 1 to 8; see orient()

  // Begins the rows of the rectangle `box` of the image at 1 / denominator of its size, before the
  // orientation, with `channels` 1 or 3 channels. Its pixels are those of the whole image decoded:
  // what upsampling and colour conversion look at around it is decoded too. Throws DataError.
  void start(const PixelBox& box, int denominator, int64_t channels);
  // The next `count` rows of the box, as RowSource::rows; count is at most what is left of it.
  // Throws DataError: damaged, truncated (also where the file is cut below the box).
  void read_rows(int64_t count, const uint8_t** rows);
  // After the last row. Throws DataError where the file has no end.
  void finish();

  // As decode_jpeg.
  void decode(std::span<const uint8_t> bytes, Image& image);

 private:
  struct Decoder;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace fovea::data
