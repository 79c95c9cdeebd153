#include "fovea/data/large_image/region_windows.h"

#include <algorithm>
#include <cstring>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr int64_t kMostBandBytes = int64_t{256} << 20;

// The high byte of each number of 16 bits.
void keep_high_bytes(std::vector<uint8_t>& numbers) {
  for (size_t i = 0; i < numbers.size() / 2; ++i) {
    uint16_t value = 0;
    std::memcpy(&value, numbers.data() + 2 * i, sizeof(value));
    numbers[i] = static_cast<uint8_t>(value >> 8);
  }
  numbers.resize(numbers.size() / 2);
}

}  // namespace

RegionWindows::RegionWindows(const RegionSource& image, const Tiling& tiling)
    : image_(image), tiling_(tiling) {
  const RegionFormat& format = image.format();
  const bool is_pixels = format.type == ScalarType::kUint8 || format.type == ScalarType::kUint16;
  if (!is_pixels || (format.channels != 1 && format.channels != 3)) {
    fail<DataError>(
        "{}: an image of {} channels of {}; a model of images is given 8 or 16 bits, unsigned, "
        "gray "
        "or RGB without alpha: convert it",
        image.name(), format.channels, name_of(format.type));
  }
  FOVEA_CHECK(tiling.sample_size() == (VolumeSize{1, format.size.height, format.size.width}),
              "tiles of another image than {}", image.name());
  has_band_ = tiling.tile_size().height * format.row_bytes() <= kMostBandBytes;
}

// Rows that the last band has too are moved, not read again.
void RegionWindows::keep_band(int64_t top) const {
  if (top == band_top_) return;
  const RegionFormat& format = image_.format();
  const int64_t height = tiling_.tile_size().height, row = format.row_bytes();
  band_.resize(static_cast<size_t>(height * row));
  const int64_t shared =
      band_top_ >= 0 && top > band_top_ ? std::max<int64_t>(band_top_ + height - top, 0) : 0;
  std::memmove(band_.data(), band_.data() + (height - shared) * row,
               static_cast<size_t>(shared * row));
  band_top_ = -1;  // nothing, should the reading fail
  image_.read({top + shared, 0, {height - shared, format.size.width}},
              std::span(band_).subspan(static_cast<size_t>(shared * row)));
  band_top_ = top;
}

void RegionWindows::read(int64_t index, Sample& sample) const {
  const Tile tile = tiling_.tile(index);
  const RegionFormat& format = image_.format();
  const ImageSize size = {tile.size.height, tile.size.width};
  const int64_t pixel = format.pixel_bytes(), row = size.width * pixel;
  Image& image = sample.become<Image>();
  image.height = size.height;
  image.width = size.width;
  image.channels = format.channels;
  image.pixels.resize(static_cast<size_t>(size.height * row));
  {
    const std::lock_guard guard(lock_);
    if (has_band_) {
      keep_band(tile.start[1]);
      for (int64_t y = 0; y < size.height; ++y) {
        std::copy_n(band_.data() + y * format.row_bytes() + tile.start[2] * pixel, row,
                    image.pixels.data() + y * row);
      }
    } else {
      image_.read({tile.start[1], tile.start[2], size}, image.pixels);
    }
  }
  if (format.type == ScalarType::kUint16) keep_high_bytes(image.pixels);
  sample.label = -1;
  sample.mask.classes.clear();
}

std::string RegionWindows::describe(int64_t index) const {
  const Tile tile = tiling_.tile(index);
  return fmt::format("{}, {} x {} pixels at row {}, column {}", image_.name(), tile.size.width,
                     tile.size.height, tile.start[1], tile.start[2]);
}

}  // namespace fovea::data
