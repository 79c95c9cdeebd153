#include "fovea/data/large_image/shrunk_image.h"

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// Sums over the parts of an image that the pixels of its picture stand for.
class PictureSums {
 public:
  PictureSums(const RegionFormat& format, ImageSize size)
      : format_(format),
        size_(size),
        channels_(format.channels == 3 ? 3 : 1),
        sums_(static_cast<size_t>(size.height * size.width * channels_)) {
    for (int64_t x = 0; x < size.width; ++x) {
      columns_.push_back(shrunk_part(x, size.width, format.size.width));
    }
  }

  // values [W, C].
  template <class T>
  void add_row(int64_t y, const T* values) {
    const int64_t row = y * size_.height / format_.size.height;
    double* sums = sums_.data() + row * size_.width * channels_;
    for (const auto& [first, end] : columns_) {
      for (int64_t c = 0; c < channels_; ++c, ++sums) {
        double sum = *sums;
        for (int64_t x = first; x < end; ++x) sum += values[x * format_.channels + c];
        *sums = sum;
      }
    }
  }

  Image picture() {
    size_t at = 0;
    for (int64_t y = 0; y < size_.height; ++y) {
      const auto [top, bottom] = shrunk_part(y, size_.height, format_.size.height);
      for (const auto& [first, end] : columns_) {
        for (int64_t c = 0; c < channels_; ++c) {
          sums_[at++] /= static_cast<double>((bottom - top) * (end - first));
        }
      }
    }
    return in_gray_values();
  }

 private:
  Image in_gray_values() const {
    double black = 0;
    double white = 255;
    if (format_.type != ScalarType::kUint8) {
      const auto [least, most] = std::minmax_element(sums_.begin(), sums_.end());
      black = *least;
      white = *most;
    }
    const double scale = white > black ? 255 / (white - black) : 0;
    Image image;
    reshape(image, size_, channels_);
    for (size_t i = 0; i < sums_.size(); ++i) {
      image.pixels[i] =
          static_cast<uint8_t>(std::clamp((sums_[i] - black) * scale + 0.5, 0.0, 255.0));
    }
    return image;
  }

  RegionFormat format_;
  ImageSize size_;
  int64_t channels_;
  std::vector<ShrunkPart> columns_;
  std::vector<double> sums_;  // [H, W, channels_]
};

}  // namespace

ImageSize shrunk_size(ImageSize size, int64_t side) {
  FOVEA_CHECK(side > 0, "a picture with sides of {}; expected at least 1", side);
  const int64_t longest = std::max(size.height, size.width);
  if (longest <= side) return size;
  return {std::max<int64_t>(size.height * side / longest, 1),
          std::max<int64_t>(size.width * side / longest, 1)};
}

ShrunkPart shrunk_part(int64_t at, int64_t to, int64_t from) {
  return {(at * from + to - 1) / to, ((at + 1) * from + to - 1) / to};
}

Image shrunk_image(const RegionSource& image, ImageSize size, int64_t band_bytes) {
  const RegionFormat& format = image.format();
  const auto& [height, width] = format.size;
  FOVEA_CHECK(size.height > 0 && size.width > 0 && size.height <= height && size.width <= width,
              "a picture of {}x{} of an image of {}x{}", size.height, size.width, height, width);
  PictureSums sums(format, size);
  RegionRows rows(image, band_bytes);
  const bool is_bytes = format.type == ScalarType::kUint8;
  std::vector<float> values(is_bytes ? 0 : static_cast<size_t>(width * format.channels));
  for (int64_t y = 0; y < height; ++y) {
    if (is_bytes) {
      sums.add_row(y, rows.row(y));
      continue;
    }
    row_to_floats(image, y, rows.row(y), values.data());
    sums.add_row(y, values.data());
  }
  return sums.picture();
}

}  // namespace fovea::data
