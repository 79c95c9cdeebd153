#include "fovea/data/image/image_header.h"

#include <array>
#include <cstring>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/image/exif.h"
#include "fovea/data/image/image_formats.h"

namespace fovea::data {
namespace {

constexpr int kMaxSegments = 10'000;  // of a JPEG before its frame, chunks of a PNG: none has more

int64_t big_endian(std::span<const uint8_t> bytes) {
  int64_t value = 0;
  for (const uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

std::optional<ImageSize> turned(int64_t height, int64_t width, int orientation) {
  if (height <= 0 || width <= 0) return std::nullopt;
  if (orientation >= 5) return ImageSize{width, height};
  return ImageSize{height, width};
}

// Markers that hold the frame's size: SOF0 to SOF15 without DHT, JPG and DAC.
bool is_frame(uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Markers without a length: TEM, RST0 to RST7, SOI, EOI.
bool is_bare(uint8_t marker) { return marker <= 0x01 || (marker >= 0xD0 && marker <= 0xD9); }

// The orientation in an APP1 segment whose body starts at `offset`; 0: it is no EXIF segment.
int segment_orientation(const HeaderFile& file, int64_t offset, int64_t length) {
  constexpr std::array<uint8_t, 6> kTag = {'E', 'x', 'i', 'f', 0, 0};
  std::vector<uint8_t> body(static_cast<size_t>(length));
  if (length <= static_cast<int64_t>(kTag.size()) || !file.read(offset, body) ||
      std::memcmp(body.data(), kTag.data(), kTag.size()) != 0) {
    return 0;
  }
  return exif_orientation(std::span(body).subspan(kTag.size()));
}

}  // namespace

// Up to the first scan: an orientation may stand behind the frame's header.
std::optional<ImageSize> jpeg_file_size(const HeaderFile& file) {
  constexpr uint8_t kStartOfScan = 0xDA;
  int64_t offset = 2, height = 0, width = 0;
  int orientation = 0;
  for (int i = 0; i < kMaxSegments; ++i) {
    std::array<uint8_t, 9> head;  // FF, marker, length (2), precision, height (2), width (2)
    if (!file.read(offset, head) || head[0] != 0xFF) return std::nullopt;
    if (head[1] == 0xFF) {  // padding before a marker
      ++offset;
      continue;
    }
    const int64_t length = big_endian(std::span(head).subspan(2, 2));
    if (length < 2 || is_bare(head[1])) return std::nullopt;
    if (head[1] == kStartOfScan) return turned(height, width, orientation);
    if (is_frame(head[1])) {
      height = big_endian(std::span(head).subspan(5, 2));
      width = big_endian(std::span(head).subspan(7, 2));
    }
    if (head[1] == 0xE1 && orientation == 0) {
      orientation = segment_orientation(file, offset + 4, length - 2);
    }
    offset += 2 + length;
  }
  return std::nullopt;
}

// An orientation may stand before or behind the pixels, so the chunks are walked to the end; files
// with one, which are rare, are left to the decoder, which knows whether the chunk is whole.
std::optional<ImageSize> png_file_size(const HeaderFile& file) {
  std::array<uint8_t, 16> first;  // length, "IHDR", width, height
  if (!file.read(8, first) || std::memcmp(first.data() + 4, "IHDR", 4) != 0) return std::nullopt;
  int64_t offset = 8;
  for (int i = 0; i < kMaxSegments; ++i) {
    std::array<uint8_t, 8> head;
    if (!file.read(offset, head) || std::memcmp(head.data() + 4, "eXIf", 4) == 0) break;
    if (std::memcmp(head.data() + 4, "IEND", 4) == 0) {
      return turned(big_endian(std::span(first).subspan(12, 4)),
                    big_endian(std::span(first).subspan(8, 4)), 1);
    }
    offset += 12 + big_endian(std::span(head).first(4));
  }
  return std::nullopt;
}

std::optional<ImageSize> image_file_size(const std::string& path) try {
  const HeaderFile file(path);
  std::array<uint8_t, kImageStartBytes> first;
  const size_t count = file.read_some(0, first);
  const ImageFormat* format = find_image_format(std::span(first).first(count));
  return format == nullptr ? std::nullopt : format->size(file);
} catch (const DataError&) {
  return std::nullopt;  // who decodes it says what is wrong
}

}  // namespace fovea::data
