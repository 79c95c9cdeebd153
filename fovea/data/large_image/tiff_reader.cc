#include <algorithm>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/data/large_image/tiff_checksums.h"
#include "fovea/data/large_image/tiff_handle.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr int64_t kMaxDirectory = 1024;
constexpr int64_t kLeastTileSide = 16;  // TIFF 6.0, section 15: a multiple of 16

// 'm': not mapped into memory, where pages of the file would count as the process's; 'O': places of
// tiles are looked up when they are needed, so a directory costs memory only as far as it is used.
std::unique_ptr<TiffHandle> open_handle(const std::string& path, int64_t directory) {
  InputFile file(path);
  auto handle = std::make_unique<TiffHandle>(file.descriptor(), file.name(), "rmO");
  file.release();  // libtiff closes it
  if (directory < 0 || directory > kMaxDirectory ||
      (directory > 0 && TIFFSetDirectory(handle->get(), static_cast<tdir_t>(directory)) != 1)) {
    handle->fail_at(fmt::format("has no image {}", directory));
  }
  return handle;
}

ScalarType type_of(TIFF* tiff, const std::string& name) {
  const auto bits = tiff_tag<uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  const auto kind = tiff_tag<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  const bool is_unsigned = kind == SAMPLEFORMAT_UINT || kind == SAMPLEFORMAT_VOID;
  if (is_unsigned && bits == 8) return ScalarType::kUint8;
  if (is_unsigned && bits == 16) return ScalarType::kUint16;
  if (is_unsigned && bits == 32) return ScalarType::kUint32;
  if (kind == SAMPLEFORMAT_INT && bits == 16) return ScalarType::kInt16;
  if (kind == SAMPLEFORMAT_INT && bits == 32) return ScalarType::kInt32;
  if (kind == SAMPLEFORMAT_IEEEFP && bits == 32) return ScalarType::kFloat32;
  fail<DataError>(
      "{}: {} bits a sample of TIFF's sample format {}; expected 8, 16 or 32 unsigned, 16 or 32 "
      "signed, or 32 bits of float; convert the file",
      name, bits, kind);
}

void check_compression(TIFF* tiff, const std::string& name, ScalarType type) {
  const auto compression = tiff_tag<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  const auto photometric = tiff_tag<uint16_t>(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  switch (compression) {
    case COMPRESSION_NONE:
    case COMPRESSION_LZW:
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
    case COMPRESSION_PACKBITS:
      break;
    case COMPRESSION_JPEG:
      if (type != ScalarType::kUint8) {
        fail<DataError>("{}: JPEG of more than 8 bits; expected 8", name);
      }
      break;
    default:
      fail<DataError>(
          "{}: compression {}; expected none, LZW, deflate, PackBits or JPEG; convert "
          "the file",
          name, compression);
  }
  const bool is_ycbcr = photometric == PHOTOMETRIC_YCBCR && compression == COMPRESSION_JPEG;
  if (photometric != PHOTOMETRIC_MINISBLACK && photometric != PHOTOMETRIC_RGB && !is_ycbcr) {
    fail<DataError>(
        "{}: TIFF's photometric interpretation {}; expected gray (black is 0) or RGB; "
        "convert the file",
        name, photometric);
  }
  const auto orientation = tiff_tag<uint16_t>(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
  if (orientation != ORIENTATION_TOPLEFT) {
    fail<DataError>("{}: orientation {}; expected 1, rows from above; convert the file", name,
                    orientation);
  }
  if (is_ycbcr) TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
}

RegionFormat read_format(TIFF* tiff, const std::string& name) {
  RegionFormat format;
  format.type = type_of(tiff, name);
  check_compression(tiff, name, format.type);
  format.size = {tiff_tag<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0),
                 tiff_tag<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0)};
  format.channels = tiff_tag<uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  const bool is_tiled = TIFFIsTiled(tiff) != 0;
  const uint32_t rows =
      tiff_tag<uint32_t>(tiff, is_tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, 1);
  format.block_height = std::clamp<int64_t>(rows, 1, std::max<int64_t>(format.size.height, 1));
  return format;
}

class TiffRegions : public RegionSource {
 public:
  TiffRegions(const std::string& path, std::unique_ptr<TiffHandle> handle)
      : RegionSource(printable(path), read_format(handle->get(), printable(path))),
        handle_(std::move(handle)),
        tiff_(handle_->get()),
        checksums_(*handle_),
        is_tiled_(TIFFIsTiled(tiff_) != 0),
        num_planes_(tiff_tag<uint16_t>(tiff_, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) ==
                            PLANARCONFIG_SEPARATE
                        ? format().channels
                        : 1) {
    pixel_ = format().pixel_bytes() / num_planes_;
    tile_ = is_tiled_ ? ImageSize{tiff_tag<uint32_t>(tiff_, TIFFTAG_TILELENGTH, 0),
                                  tiff_tag<uint32_t>(tiff_, TIFFTAG_TILEWIDTH, 0)}
                      : ImageSize{1, format().size.width};
    const int64_t most = kMaxRegionSide + 16;  // the last tile goes past the image's edge
    const auto& [height, width] = tile_;
    if (is_tiled_ && (height < kLeastTileSide || width < kLeastTileSide)) {
      fail<DataError>(
          "{}: tiles of {}x{} pixels, each of which is read by itself; expected sides of at least "
          "{}, as TIFF has them: save the file again",
          name(), height, width, kLeastTileSide);
    }
    if (height < 1 || width < 1 || height > most || width > most ||
        height * width > kMaxTiffTileBytes / pixel_) {
      fail<DataError>("{}: tiles of {}x{} pixels of {} bytes; expected at most {} bytes", name(),
                      height, width, pixel_, kMaxTiffTileBytes);
    }
    const int64_t bytes = height * width * pixel_;
    const tmsize_t stored = is_tiled_ ? TIFFTileSize(tiff_) : TIFFScanlineSize(tiff_);
    if (stored != bytes)
      handle_->fail_at(fmt::format("{} bytes a tile or row, not {}", stored, bytes));
    block_.resize(static_cast<size_t>(bytes));
  }

 protected:
  void read_inside(const PixelBox& region, uint8_t* out) const override {
    for (int64_t plane = 0; plane < num_planes_; ++plane) {
      if (is_tiled_) {
        read_tiles(region, plane, out);
      } else {
        read_strips(region, plane, out);
      }
    }
  }

 private:
  void read_tiles(const PixelBox& region, int64_t plane, uint8_t* out) const {
    const int64_t bottom = region.top + region.size.height;
    const int64_t right = region.left + region.size.width;
    for (int64_t y = region.top / tile_.height * tile_.height; y < bottom; y += tile_.height) {
      for (int64_t x = region.left / tile_.width * tile_.width; x < right; x += tile_.width) {
        const uint32_t tile =
            TIFFComputeTile(tiff_, static_cast<uint32_t>(x), static_cast<uint32_t>(y), 0,
                            static_cast<uint16_t>(plane));
        const auto bytes = static_cast<tmsize_t>(block_.size());
        if (TIFFReadEncodedTile(tiff_, tile, block_.data(), bytes) != bytes) {
          handle_->fail_at(fmt::format("tile {} at row {}, column {} cannot be read", tile, y, x));
        }
        handle_->fail_if_damaged(fmt::format("tile {} at row {}, column {}", tile, y, x));
        checksums_.check(tile, block_);
        const int64_t first = std::max(y, region.top);
        const int64_t last = std::min(y + tile_.height, bottom);
        const int64_t begin = std::max(x, region.left);
        const int64_t count = std::min(x + tile_.width, right) - begin;
        for (int64_t row = first; row < last; ++row) {
          copy_pixels(block_.data() + ((row - y) * tile_.width + begin - x) * pixel_, count, plane,
                      region, row, begin, out);
        }
      }
    }
  }

  // Most codecs know no way to a row but through those before it in its strip.
  void read_strips(const PixelBox& region, int64_t plane, uint8_t* out) const {
    for (int64_t y = region.top; y < region.top + region.size.height; ++y) {
      const int64_t strip = y / format().block_height * format().block_height;
      const bool goes_on = plane == last_plane_ && last_row_ >= strip && last_row_ < y;
      for (int64_t row = goes_on ? last_row_ + 1 : strip; row <= y; ++row) read_row(row, plane);
      copy_pixels(block_.data() + region.left * pixel_, region.size.width, plane, region, y,
                  region.left, out);
    }
  }

  void read_row(int64_t y, int64_t plane) const {
    last_row_ = -1;
    if (TIFFReadScanline(tiff_, block_.data(), static_cast<uint32_t>(y),
                         static_cast<uint16_t>(plane)) != 1) {
      handle_->fail_at(fmt::format("row {} cannot be read", y));
    }
    handle_->fail_if_damaged(fmt::format("row {}", y));
    if (y % format().block_height == 0) {
      checksums_.check(
          TIFFComputeStrip(tiff_, static_cast<uint32_t>(y), static_cast<uint16_t>(plane)),
          format().block_height * static_cast<int64_t>(block_.size()));
    }
    last_row_ = y;
    last_plane_ = plane;
  }

  // Pixels of one plane of row y from column x on, to their place in the region.
  void copy_pixels(const uint8_t* from, int64_t count, int64_t plane, const PixelBox& region,
                   int64_t y, int64_t x, uint8_t* out) const {
    const int64_t stride = format().pixel_bytes();
    out += ((y - region.top) * region.size.width + x - region.left) * stride + plane * pixel_;
    if (num_planes_ == 1) {
      std::copy_n(from, count * pixel_, out);
      return;
    }
    for (int64_t i = 0; i < count; ++i) std::copy_n(from + i * pixel_, pixel_, out + i * stride);
  }

  std::unique_ptr<TiffHandle> handle_;
  TIFF* tiff_;
  TiffChecksums checksums_;
  bool is_tiled_;
  int64_t num_planes_;
  int64_t pixel_ = 0;                   // bytes of a pixel in one plane
  ImageSize tile_;                      // of a strip: one row
  mutable std::vector<uint8_t> block_;  // a tile, or a row of a strip
  mutable int64_t last_row_ = -1;       // of strips, what was read last
  mutable int64_t last_plane_ = -1;
};

}  // namespace

bool is_tiff(std::span<const uint8_t> bytes) {
  if (bytes.size() < 4) return false;
  const bool is_little = bytes[0] == 'I' && bytes[1] == 'I';
  const bool is_big = bytes[0] == 'M' && bytes[1] == 'M';
  const int first = is_little ? bytes[2] : bytes[3];
  const int second = is_little ? bytes[3] : bytes[2];
  return (is_little || is_big) && (first == 42 || first == 43) && second == 0;
}

bool is_tiff_file(const std::string& path) {
  const std::string start = read_start(path, 4);
  return is_tiff({reinterpret_cast<const uint8_t*>(start.data()), start.size()});
}

std::unique_ptr<RegionSource> open_tiff(const std::string& path, int64_t directory) {
  return std::make_unique<TiffRegions>(path, open_handle(path, directory));
}

std::unique_ptr<RegionSource> open_tiff_pixels(const std::string& path) {
  constexpr int64_t kLeastBlocks = 4;  // fewer: a region costs as much as the image
  try {
    auto source = open_tiff(path);
    const RegionFormat& format = source->format();
    const bool is_image =
        format.type == ScalarType::kUint8 && (format.channels == 1 || format.channels == 3);
    return is_image && format.block_height * kLeastBlocks <= format.size.height ? std::move(source)
                                                                                : nullptr;
  } catch (const DataError&) {  // of another kind: read as a whole, which says what is wrong
    return nullptr;
  }
}

}  // namespace fovea::data
