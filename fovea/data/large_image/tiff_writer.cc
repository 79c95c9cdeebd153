#include <unistd.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/write_error.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/data/large_image/tiff_handle.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr int64_t kTileSide = 256;
constexpr int64_t kMostTileRowBytes = int64_t{128} << 20;
constexpr int64_t kClassicTiffBytes = int64_t{3} << 30;  // 4 GB less room for what does not shrink

struct SampleKind {
  uint16_t bits = 8;
  uint16_t format = SAMPLEFORMAT_UINT;
};

SampleKind kind_of(ScalarType type) {
  switch (type) {
    case ScalarType::kUint8:
      return {8, SAMPLEFORMAT_UINT};
    case ScalarType::kUint16:
      return {16, SAMPLEFORMAT_UINT};
    case ScalarType::kUint32:
      return {32, SAMPLEFORMAT_UINT};
    case ScalarType::kInt16:
      return {16, SAMPLEFORMAT_INT};
    case ScalarType::kInt32:
      return {32, SAMPLEFORMAT_INT};
    case ScalarType::kFloat32:
      return {32, SAMPLEFORMAT_IEEEFP};
    default:
      fail<ConfigError>("TIFF of {}; expected uint8, uint16, int16, uint32, int32 or float32",
                        name_of(type));
  }
}

uint16_t compression_named(const std::string& name) {
  if (name == "none") return COMPRESSION_NONE;
  if (name == "lzw") return COMPRESSION_LZW;
  if (name == "deflate") return COMPRESSION_ADOBE_DEFLATE;
  fail<ConfigError>("TIFF compression '{}'; expected none, lzw or deflate", name);
}

const TiffWriterOptions& checked_options(const TiffWriterOptions& options) {
  const auto& [height, width] = options.size;
  if (height < 1 || width < 1 || height > kMaxRegionSide || width > kMaxRegionSide ||
      options.channels < 1 || options.channels > kMaxRegionChannels) {
    fail<ConfigError>(
        "a TIFF of {}x{} pixels of {} channels; expected sides of 1 to {}, 1 to {} "
        "channels",
        height, width, options.channels, kMaxRegionSide, kMaxRegionChannels);
  }
  kind_of(options.type);
  compression_named(options.compression);
  return options;
}

}  // namespace

struct TiffWriter::State {
  State(const std::string& path, const TiffWriterOptions& file_options)
      : options(checked_options(file_options)),
        pixel(options.channels * bytes_of(options.type)),
        file(path) {
    while (side > 16 && side * options.size.width * pixel > kMostTileRowBytes) side /= 2;
    const int64_t bytes = options.size.height * options.size.width * pixel;
    const int descriptor = dup(file.descriptor());  // libtiff closes it
    try {
      handle = std::make_unique<TiffHandle>(descriptor, printable(path),
                                            bytes > kClassicTiffBytes ? "w8" : "w4");
    } catch (...) {
      close(descriptor);
      throw;
    }
    set_tags();
    rows.resize(static_cast<size_t>(side * options.size.width * pixel));
    tile.resize(static_cast<size_t>(side * side * pixel));
  }

  void set_tags() {
    TIFF* tiff = handle->get();
    const auto [bits, format] = kind_of(options.type);
    const auto channels = static_cast<uint16_t>(options.channels);
    const bool is_rgb = channels == 3 && options.type == ScalarType::kUint8;
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, static_cast<uint32_t>(options.size.width));
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, static_cast<uint32_t>(options.size.height));
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, channels);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, bits);
    TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, format);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, is_rgb ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK);
    if (!is_rgb && channels > 1) {
      const std::vector<uint16_t> extra(channels - 1u, EXTRASAMPLE_UNSPECIFIED);
      TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, static_cast<uint16_t>(channels - 1), extra.data());
    }
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression_named(options.compression));
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, static_cast<uint32_t>(side));
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, static_cast<uint32_t>(side));
  }

  // The rows gathered, as tiles; past the edges with zeros.
  void flush_rows() {
    const int64_t width = options.size.width;
    for (int64_t x = 0; x < width; x += side) {
      const int64_t count = std::min(side, width - x);
      std::fill(tile.begin(), tile.end(), uint8_t{0});
      for (int64_t y = 0; y < num_rows; ++y) {
        std::copy_n(rows.data() + (y * width + x) * pixel, count * pixel,
                    tile.data() + y * side * pixel);
      }
      TIFF* tiff = handle->get();
      const uint32_t index =
          TIFFComputeTile(tiff, static_cast<uint32_t>(x), static_cast<uint32_t>(first_row), 0, 0);
      const auto bytes = static_cast<tmsize_t>(tile.size());
      if (TIFFWriteEncodedTile(tiff, index, tile.data(), bytes) != bytes) {
        handle->fail_at<WriteError>("cannot be written");
      }
    }
    first_row += num_rows;
    num_rows = 0;
  }

  TiffWriterOptions options;
  int64_t pixel;
  int64_t side = kTileSide;
  AtomicFile file;
  std::unique_ptr<TiffHandle> handle;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  std::vector<uint8_t> rows;  // [side, W, C]
  std::vector<uint8_t> tile;  // [side, side, C]
};

TiffWriter::TiffWriter(const std::string& path, const TiffWriterOptions& options)
    : state_(std::make_unique<State>(path, options)) {}

TiffWriter::~TiffWriter() = default;

void TiffWriter::write_rows(std::span<const uint8_t> rows, int64_t count) {
  State& state = *state_;
  const int64_t row_bytes = state.options.size.width * state.pixel;
  const int64_t height = state.options.size.height;
  FOVEA_CHECK(count > 0 && static_cast<int64_t>(rows.size()) == count * row_bytes,
              "{} bytes for {} rows of {}", rows.size(), count, row_bytes);
  FOVEA_CHECK(state.first_row + state.num_rows + count <= height, "more than {} rows", height);
  const uint8_t* from = rows.data();
  while (count > 0) {
    const int64_t part = std::min(count, state.side - state.num_rows);
    std::copy_n(from, part * row_bytes, state.rows.data() + state.num_rows * row_bytes);
    state.num_rows += part;
    from += part * row_bytes;
    count -= part;
    const bool is_last = state.first_row + state.num_rows == height;
    if (state.num_rows == state.side || is_last) state.flush_rows();
  }
}

void TiffWriter::finish() {
  State& state = *state_;
  FOVEA_CHECK(state.first_row == state.options.size.height, "{} rows of {}", state.first_row,
              state.options.size.height);
  if (!state.handle->close()) state.handle->fail_at<WriteError>("cannot be written");
  state.file.commit();
}

}  // namespace fovea::data
