#include "fovea/data/image/exif.h"

#include <cstring>
#include <utility>

namespace fovea::data {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShort = 3;
constexpr size_t kEntryBytes = 12;

// Reads integers in the byte order of the block; zero outside of it.
class ExifReader {
 public:
  explicit ExifReader(std::span<const uint8_t> bytes)
      : bytes_(bytes), is_little_(bytes.size() > 1 && bytes[0] == 'I') {}

  uint32_t number(size_t offset, size_t count) const {
    if (offset > bytes_.size() || bytes_.size() - offset < count) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      value = value << 8 | bytes_[offset + (is_little_ ? count - 1 - i : i)];
    }
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool is_little_;
};

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  const ExifReader reader(tiff);
  if (reader.number(2, 2) != 42) return 1;
  const size_t directory = reader.number(4, 4);
  const uint32_t entries = reader.number(directory, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > tiff.size()) break;
    if (reader.number(entry, 2) != kOrientationTag || reader.number(entry + 2, 2) != kShort)
      continue;
    const uint32_t orientation = reader.number(entry + 8, 2);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

Turn turn_of(int orientation) {
  const auto is_one_of = [orientation](int a, int b, int c, int d) {
    return orientation == a || orientation == b || orientation == c || orientation == d;
  };
  return {.is_transposed = is_one_of(5, 6, 7, 8),
          .is_mirrored_x = is_one_of(2, 3, 7, 8),
          .is_mirrored_y = is_one_of(3, 4, 6, 7)};
}

void orient(Image& image, int orientation, Image& scratch) {
  if (orientation <= 1 || orientation > 8) return;
  const auto [is_transposed, is_mirrored_x, is_mirrored_y] = turn_of(orientation);
  const int64_t channels = image.channels;
  scratch.height = is_transposed ? image.width : image.height;
  scratch.width = is_transposed ? image.height : image.width;
  scratch.channels = channels;
  scratch.pixels.resize(image.pixels.size());
  uint8_t* target = scratch.pixels.data();
  for (int64_t y = 0; y < scratch.height; ++y) {
    for (int64_t x = 0; x < scratch.width; ++x, target += channels) {
      int64_t from_y = is_transposed ? x : y;
      int64_t from_x = is_transposed ? y : x;
      if (is_mirrored_y) from_y = image.height - 1 - from_y;
      if (is_mirrored_x) from_x = image.width - 1 - from_x;
      std::memcpy(target, image.pixels.data() + (from_y * image.width + from_x) * channels,
                  static_cast<size_t>(channels));
    }
  }
  std::swap(image, scratch);
}

}  // namespace fovea::data
