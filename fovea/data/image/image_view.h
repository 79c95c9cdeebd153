// A window into pixels that somebody else owns: crops cost nothing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fovea/data/sample.h"

namespace fovea::data {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

// In proportion, with a longest side of `side`, rounded to the nearest; no side below 1.
inline ImageSize with_longest_side(const ImageSize& size, int64_t side) {
  const int64_t longest = std::max(size.height, size.width);
  const auto scaled = [&](int64_t length) {
    return std::max<int64_t>(1, (length * side + longest / 2) / longest);
  };
  return {scaled(size.height), scaled(size.width)};
}

// Bytes that may be read behind the last pixel of a row where a function asks for slack, so that
// whole vectors can be loaded.
inline constexpr int64_t kRowSlack = 64;

// A rectangle of pixels.
struct PixelBox {
  int64_t top = 0;
  int64_t left = 0;
  ImageSize size;
};

struct ImageView {
  const uint8_t* pixels = nullptr;  // [H, W, C], rows row_stride bytes apart
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int64_t row_stride = 0;

  ImageView() = default;
  explicit ImageView(const Image& image)
      : pixels(image.pixels.data()),
        height(image.height),
        width(image.width),
        channels(image.channels),
        row_stride(image.width * image.channels) {}

  explicit ImageView(const StoredImage& image)
      : pixels(image.pixels.data()),
        height(image.height),
        width(image.width),
        channels(image.channels),
        row_stride(image.width * image.channels) {}

  const uint8_t* row(int64_t y) const { return pixels + y * row_stride; }
  ImageSize size() const { return {height, width}; }
  // The rectangle [top, top + size.height) x [left, left + size.width), which must lie inside.
  ImageView crop(int64_t top, int64_t left, ImageSize size) const {
    ImageView view = *this;
    view.pixels += top * row_stride + left * channels;
    view.height = size.height;
    view.width = size.width;
    return view;
  }
};

// Of a sample made of an Image or of a StoredImage.
inline ImageView view_of(const Sample& sample) {
  return sample.is<StoredImage>() ? ImageView(sample.as<StoredImage>()) : ImageView(sample.image());
}

// Makes `image` hold height x width x channels bytes; keeps its buffer where it is large enough.
inline void reshape(Image& image, ImageSize size, int64_t channels) {
  image.height = size.height;
  image.width = size.width;
  image.channels = channels;
  image.pixels.resize(static_cast<size_t>(size.height * size.width * channels));
}

}  // namespace fovea::data
