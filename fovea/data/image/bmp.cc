#include "fovea/data/image/bmp.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/image_view.h"
#include "fovea/files/byte_reader.h"

namespace fovea::data {
namespace {

constexpr size_t kFileHeaderBytes = 14;
constexpr uint32_t kCoreHeaderBytes = 12;  // OS/2 1.x
// Windows 3, its two extensions by Adobe, versions 4 and 5.
constexpr std::array<uint32_t, 5> kInfoHeaderBytes = {40, 52, 56, 108, 124};

constexpr int64_t kMaxSparsePixels = 1 << 20;

enum Compression : uint32_t { kPlain = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3, kAlphaFields = 6 };

struct BmpHeader {
  uint32_t data_offset = 0, header_bytes = 0, compression = kPlain, colours = 0;
  int64_t width = 0, height = 0;
  bool is_top_down = false;
  int64_t bits = 0;
  std::array<uint32_t, 3> masks = {};  // of red, green and blue; zeros: not by masks

  int64_t row_bytes() const { return (width * bits + 31) / 32 * 4; }
  bool is_indexed() const { return bits <= 8; }
};

[[noreturn]] void fail_as_bmp(std::string_view what) {
  fail<DataError>("damaged BMP ({}); fetch the file again or remove it", what);
}

void read_core(ByteReader& in, BmpHeader& header) {
  header.width = in.number<uint16_t>();
  header.height = in.number<uint16_t>();
  in.skip(2);
  header.bits = in.number<uint16_t>();
}

void read_info(ByteReader& in, BmpHeader& header) {
  header.width = in.number<int32_t>();
  header.height = in.number<int32_t>();
  header.is_top_down = header.height < 0;
  if (header.is_top_down) header.height = -header.height;
  in.skip(2);
  header.bits = in.number<uint16_t>();
  header.compression = in.number<uint32_t>();
  in.skip(12);  // bytes of the pixels, resolution
  header.colours = in.number<uint32_t>();
  in.skip(4);
  const bool has_masks = header.compression == kBitFields || header.compression == kAlphaFields;
  if (has_masks) {  // in the longer headers, or behind the short one
    for (uint32_t& mask : header.masks) mask = in.number<uint32_t>();
  } else if (header.bits == 16) {
    header.masks = {0x7C00, 0x03E0, 0x001F};
  } else if (header.bits == 32) {
    header.masks = {0xFF0000, 0x00FF00, 0x0000FF};
  }
}

// Up to the masks.
BmpHeader read_header(std::span<const uint8_t> bytes) {
  ByteReader in(bytes, "the BMP's header");
  BmpHeader header;
  in.skip(10);
  header.data_offset = in.number<uint32_t>();
  header.header_bytes = in.number<uint32_t>();
  const bool is_core = header.header_bytes == kCoreHeaderBytes;
  if (!is_core && std::find(kInfoHeaderBytes.begin(), kInfoHeaderBytes.end(),
                            header.header_bytes) == kInfoHeaderBytes.end()) {
    fail<DataError>(
        "a BMP header of {} bytes; expected 12, 40, 52, 56, 108 or 124: convert the image to PNG",
        header.header_bytes);
  }
  is_core ? read_core(in, header) : read_info(in, header);
  return header;
}

bool is_known(const BmpHeader& header) {
  const int64_t bits = header.bits;
  switch (header.compression) {
    case kPlain:
      return bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32;
    case kRle8:
      return bits == 8 && !header.is_top_down;
    case kRle4:
      return bits == 4 && !header.is_top_down;
    case kBitFields:
    case kAlphaFields:
      return bits == 16 || bits == 32;
    default:
      return false;
  }
}

void check_header(const BmpHeader& header, size_t file_bytes) {
  if (header.width < 1 || header.height < 1) fail_as_bmp("no pixels");
  if (!is_known(header)) {
    fail<DataError>(
        "a BMP of {} bits, compression {}{}; expected 1, 4, 8, 16, 24 or 32 bits, plain or "
        "run-length encoded: convert the image to PNG",
        header.bits, header.compression, header.is_top_down ? ", from the top down" : "");
  }
  check_announced_pixels(header.width, header.height);
  const bool is_run = header.compression == kRle8 || header.compression == kRle4;
  const int64_t held = static_cast<int64_t>(file_bytes) - header.data_offset;
  // Two bytes make a run of 255 pixels at most; what leaves more out is small, or an attack.
  const int64_t pixels = header.width * header.height;
  const int64_t least = pixels > kMaxSparsePixels ? pixels / 128 : 1;
  if (held < (is_run ? least : header.row_bytes() * header.height))
    fail<DataError>("the BMP is truncated; fetch the file again or remove it");
}

using Colour = std::array<uint8_t, 3>;

// Behind the header; missing entries are black.
std::vector<Colour> read_palette(std::span<const uint8_t> bytes, const BmpHeader& header) {
  if (!header.is_indexed()) return {};
  const size_t most = size_t{1} << header.bits;
  const bool is_core = header.header_bytes == kCoreHeaderBytes;
  const size_t count = header.colours == 0 ? most : std::min<size_t>(header.colours, most);
  ByteReader in(bytes, "the BMP's palette");
  in.skip(kFileHeaderBytes + header.header_bytes);
  std::vector<Colour> palette(most);
  for (size_t i = 0; i < count; ++i) {
    if (in.position() + (is_core ? 3 : 4) > header.data_offset) break;
    const auto entry = in.take(is_core ? 3 : 4);
    palette[i] = {entry[2], entry[1], entry[0]};
  }
  return palette;
}

// Runs to one byte a pixel, the lowest row first.
std::vector<uint8_t> unpack_runs(std::span<const uint8_t> bytes, const BmpHeader& header) {
  const bool is_nibbles = header.compression == kRle4;
  std::vector<uint8_t> pixels(static_cast<size_t>(header.width * header.height));
  ByteReader in(bytes, "the BMP's runs");
  int64_t x = 0, y = 0;
  const auto put = [&](uint8_t value) {
    if (x < header.width) pixels[static_cast<size_t>(y * header.width + x)] = value;
    ++x;
  };
  const auto put_from = [&](uint8_t byte, int64_t place) {
    put(!is_nibbles ? byte : place % 2 == 0 ? byte >> 4 : byte & 15);
  };
  while (y < header.height) {
    const int count = in.number<uint8_t>(), code = in.number<uint8_t>();
    if (count > 0) {
      for (int i = 0; i < count; ++i) put_from(static_cast<uint8_t>(code), i);
    } else if (code == 0) {  // the next row
      x = 0;
      ++y;
    } else if (code == 1) {
      break;
    } else if (code == 2) {
      x += in.number<uint8_t>();
      y += in.number<uint8_t>();
    } else {  // so many as they are, to an even number of bytes
      const int held = is_nibbles ? (code + 1) / 2 : code;
      const auto values = in.take(static_cast<uint64_t>(held + held % 2));
      for (int i = 0; i < code; ++i)
        put_from(values[static_cast<size_t>(is_nibbles ? i / 2 : i)], i);
    }
  }
  return pixels;
}

// The number under a mask, on 0 to 255.
class Field {
 public:
  explicit Field(uint32_t mask)
      : mask_(mask), shift_(mask == 0 ? 0 : std::countr_zero(mask)), most_(mask >> shift_) {
    if (most_ != 0 && (most_ & (most_ + uint64_t{1})) != 0) fail_as_bmp("masks with gaps");
  }
  uint8_t of(uint32_t pixel) const {
    if (most_ == 0) return 0;
    return static_cast<uint8_t>(uint64_t{(pixel & mask_) >> shift_} * 255 / most_);
  }

 private:
  uint32_t mask_;
  int shift_;
  uint32_t most_;
};

class RowReader {
 public:
  RowReader(const BmpHeader& header, std::vector<Colour> palette)
      : header_(header),
        palette_(std::move(palette)),
        fields_{Field(header.masks[0]), Field(header.masks[1]), Field(header.masks[2])} {
    is_gray_ = header.is_indexed() &&
               std::all_of(palette_.begin(), palette_.end(), [](const Colour& colour) {
                 return colour[0] == colour[1] && colour[1] == colour[2];
               });
  }

  int64_t channels() const { return is_gray_ ? 1 : 3; }

  // row: of the file, or of unpacked runs a byte a pixel.
  void read(const uint8_t* row, bool are_bytes, uint8_t* out) const {
    for (int64_t x = 0; x < header_.width; ++x, out += channels()) {
      if (header_.is_indexed()) {
        put_colour(palette_[index_at(row, x, are_bytes ? 8 : header_.bits)], out);
      } else if (header_.bits == 24) {
        put_colour({row[3 * x + 2], row[3 * x + 1], row[3 * x]}, out);
      } else {
        const uint32_t pixel = header_.bits == 16
                                   ? load_number<uint16_t>(row + 2 * x, std::endian::little)
                                   : load_number<uint32_t>(row + 4 * x, std::endian::little);
        put_colour({fields_[0].of(pixel), fields_[1].of(pixel), fields_[2].of(pixel)}, out);
      }
    }
  }

 private:
  static size_t index_at(const uint8_t* row, int64_t x, int64_t bits) {
    const int64_t bit = x * bits;
    return static_cast<size_t>(row[bit / 8] >> (8 - bits - bit % 8)) & ((size_t{1} << bits) - 1);
  }
  void put_colour(const Colour& colour, uint8_t* out) const {
    for (int64_t i = 0; i < channels(); ++i) out[i] = colour[static_cast<size_t>(i)];
  }

  const BmpHeader& header_;
  std::vector<Colour> palette_;
  std::array<Field, 3> fields_;
  bool is_gray_ = false;
};

}  // namespace

bool is_bmp(std::span<const uint8_t> bytes) {
  // Two reserved words, and a header of a length that there is, 16 and 64 of OS/2 2.x among them.
  constexpr std::array<uint8_t, 8> kLengths = {12, 16, 40, 52, 56, 64, 108, 124};
  return bytes.size() >= 16 && bytes[0] == 'B' && bytes[1] == 'M' && bytes[6] == 0 &&
         bytes[7] == 0 && bytes[8] == 0 && bytes[9] == 0 && bytes[15] == 0 &&
         std::find(kLengths.begin(), kLengths.end(), bytes[14]) != kLengths.end();
}

void decode_bmp(std::span<const uint8_t> bytes, Image& image) {
  const BmpHeader header = read_header(bytes);
  check_header(header, bytes.size());
  const RowReader rows(header, read_palette(bytes, header));
  const bool is_run = header.compression == kRle8 || header.compression == kRle4;
  auto data = bytes.subspan(header.data_offset);
  std::vector<uint8_t> unpacked;
  if (is_run) {
    unpacked = unpack_runs(data, header);
    data = unpacked;
  }
  const int64_t stride = is_run ? header.width : header.row_bytes();
  reshape(image, {header.height, header.width}, rows.channels());
  for (int64_t y = 0; y < image.height; ++y) {
    const int64_t row = header.is_top_down ? y : image.height - 1 - y;
    rows.read(data.data() + row * stride, is_run,
              image.pixels.data() + y * image.width * image.channels);
  }
}

std::optional<ImageSize> bmp_file_size(const HeaderFile& file) {
  std::array<uint8_t, kFileHeaderBytes + 56> start = {};
  const size_t count = file.read_some(0, start);
  try {
    const BmpHeader header = read_header(std::span(start).first(count));
    if (header.width < 1 || header.height < 1) return std::nullopt;
    return ImageSize{header.height, header.width};
  } catch (const DataError&) {  // decoding says what is wrong
    return std::nullopt;
  }
}

}  // namespace fovea::data
