#include "fovea/data/adaptive/canny.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/border.h"
#include "fovea/data/adaptive/canny_rows.h"
#include "fovea/data/adaptive/huge_pages.h"
#include "fovea/data/adaptive/hysteresis.h"

namespace fovea::data::patching {
namespace {

constexpr int64_t kRing =
    8;  // rows kept at a time: a blur of 5 needs 5, and a power of two is fast

// Walks down the image once; each stage is a row or two behind the one before, so that all rows in
// use stay in the cache.
class RowWalk {
 public:
  RowWalk(const ImageRows& image, const CannyOptions& options, CannyScratch& scratch)
      : image_(image),
        options_(options),
        scratch_(scratch),
        stride_((image.width + 2 * kRowMargin + 63) / 64 * 64),
        words_((image.width + 63) / 64) {
    const auto plane = static_cast<size_t>(kRing * stride_);
    scratch.source.resize(plane * static_cast<size_t>(image.channels));
    scratch.blurred.resize(plane * static_cast<size_t>(image.channels));
    scratch.gradient.assign(2 * plane + static_cast<size_t>(stride_), 0);
    scratch.sums.resize(static_cast<size_t>(stride_));
  }

  void find_edges() {
    resize_large(scratch_.candidates, static_cast<size_t>(image_.height * words_));
    resize_large(scratch_.strong, static_cast<size_t>(image_.height * words_));
    for (int64_t y = 0; y < image_.height + 2; ++y) {
      if (y < image_.height) blur(y);
      if (y >= 1 && y <= image_.height) differentiate(y - 1);
      if (y >= 2) suppress(y - 2);
    }
    grow_edges(image_.height, words_, scratch_.candidates.data(), scratch_.strong.data(),
               scratch_.is_dirty);
  }

  void walk_magnitudes(const std::function<void(int64_t, const int16_t*)>& take) {
    for (int64_t y = 0; y < image_.height + 1; ++y) {
      if (y < image_.height) blur(y);
      if (y == 0) continue;
      differentiate(y - 1);
      take(y - 1, magnitude_row(y - 1));
    }
  }

 private:
  template <class T>
  T* ring_row(std::vector<T>& ring, int64_t planes, int64_t y) {
    return ring.data() + (y % kRing) * planes * stride_ + kRowMargin;
  }
  uint8_t* source_row(int64_t y) { return ring_row(scratch_.source, image_.channels, y); }
  int16_t* blurred_row(int64_t y) {
    return ring_row(scratch_.blurred, image_.channels,
                    std::clamp<int64_t>(y, 0, image_.height - 1));
  }
  int16_t* magnitude_row(int64_t y) {  // beyond the image: the row of zeros at the end
    const bool is_inside = y >= 0 && y < image_.height;
    return is_inside ? ring_row(scratch_.gradient, 2, y)
                     : scratch_.gradient.data() + 2 * kRing * stride_ + kRowMargin;
  }
  int16_t* direction_row(int64_t y) { return ring_row(scratch_.gradient, 2, y) + stride_; }

  void blur(int64_t y) {
    const int64_t radius = options_.blur_size / 2;
    for (; loaded_ <= std::min(y + radius, image_.height - 1); ++loaded_) {
      split_channels(image_.row(loaded_), image_.width, image_.channels, source_row(loaded_),
                     stride_);
    }
    for (int64_t c = 0; c < image_.channels; ++c) {
      std::array<const uint8_t*, 5> rows{};
      for (int64_t k = 0; k < options_.blur_size; ++k) {
        rows[static_cast<size_t>(k)] =
            source_row(reflect101(y + k - radius, image_.height)) + c * stride_;
      }
      blur_row(rows.data(), options_.blur_size, image_.width, scratch_.sums.data(),
               blurred_row(y) + c * stride_);
    }
  }

  void differentiate(int64_t y) {
    const int16_t* rows[3] = {blurred_row(y - 1), blurred_row(y), blurred_row(y + 1)};
    sobel_row(rows, image_.channels, stride_, image_.width, magnitude_row(y), direction_row(y));
  }

  void suppress(int64_t y) {
    const int16_t* rows[3] = {magnitude_row(y - 1), magnitude_row(y), magnitude_row(y + 1)};
    // The gradients of bytes stay below 2^12; limits above it are all alike.
    const auto low = static_cast<int>(std::clamp<int64_t>(options_.low, 0, 4096));
    const auto high = static_cast<int>(std::clamp<int64_t>(options_.high, 0, 4096));
    suppress_row(rows, direction_row(y), image_.width, low, high,
                 scratch_.candidates.data() + y * words_, scratch_.strong.data() + y * words_);
  }

  const ImageRows& image_;
  CannyOptions options_;
  CannyScratch& scratch_;
  int64_t stride_;  // elements from plane to plane
  int64_t words_;
  int64_t loaded_ = 0;  // source rows split so far
};

// Bit i of a byte, as byte i of a word.
constexpr std::array<uint64_t, 256> spread_table() {
  std::array<uint64_t, 256> table{};
  for (uint64_t bits = 0; bits < 256; ++bits) {
    for (int i = 0; i < 8; ++i) table[bits] |= (bits >> i & 1) << (8 * i);
  }
  return table;
}
constexpr auto kSpread = spread_table();

void check(const ImageRows& image, int64_t blur_size) {
  FOVEA_CHECK(image.height > 0 && image.width > 0 && image.channels > 0,
              "edges of an image of {}x{}x{}; sizes must be above 0", image.height, image.width,
              image.channels);
  FOVEA_CHECK(blur_size == 1 || blur_size == 3 || blur_size == 5,
              "blur_size={}; expected 1, 3 or 5", blur_size);
}

}  // namespace

std::span<const uint64_t> canny(const ImageRows& image, const CannyOptions& options,
                                CannyScratch& scratch) {
  check(image, options.blur_size);
  RowWalk(image, options, scratch).find_edges();
  return scratch.strong;
}

void gradient_magnitude(const ImageRows& image, int64_t blur_size,
                        const std::function<void(int64_t y, const int16_t* row)>& take,
                        CannyScratch& scratch) {
  check(image, blur_size);
  RowWalk(image, {.blur_size = blur_size}, scratch).walk_magnitudes(take);
}

void add_bits(const uint64_t* bits, int64_t width, uint8_t* counts) {
  int64_t x = 0;
  for (; x + 8 <= width; x += 8) {
    uint64_t sum = 0;
    std::memcpy(&sum, counts + x, 8);
    sum += kSpread[bits[x / 64] >> (x % 64) & 255];
    std::memcpy(counts + x, &sum, 8);
  }
  for (; x < width; ++x)
    counts[x] = static_cast<uint8_t>(counts[x] + (bits[x / 64] >> (x % 64) & 1));
}

}  // namespace fovea::data::patching
