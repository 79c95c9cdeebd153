#include "fovea/data/image/tiff_decode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/exif.h"
#include "fovea/data/image/tiff_colours.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/data/large_image/tiff_checksums.h"
#include "fovea/data/large_image/tiff_handle.h"

namespace fovea::data {
namespace {

// A strip that is larger is read row by row.
constexpr int64_t kWholeStripBytes = int64_t{64} << 20;

TiffHandle open_bytes(std::span<const uint8_t> bytes) {
  const auto read = [bytes](uint64_t offset, std::span<uint8_t> out) {
    if (offset >= bytes.size()) return size_t{0};
    const size_t count = std::min<uint64_t>(out.size(), bytes.size() - offset);
    std::memcpy(out.data(), bytes.data() + offset, count);
    return count;
  };
  return TiffHandle(read, bytes.size(), "", "rm");
}

ImageSize stored_size(TIFF* tiff) {
  return {tiff_tag<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0),
          tiff_tag<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0)};
}

int orientation_of(TIFF* tiff) {
  return tiff_tag<uint16_t>(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
}

// Pixels a byte at most, of the codecs that have a bound. 0: of a few bytes any number.
int64_t most_unpacked(uint16_t compression) {
  switch (compression) {
    case COMPRESSION_NONE:
      return 1;
    case COMPRESSION_PACKBITS:
      return 64;
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
      return 1032;
    case COMPRESSION_LZW:
      return 4096;
    default:
      return 0;
  }
}

// Strips and tiles lie in the file, and are not too few bytes for their pixels: nothing is
// allocated for a header that promises more than the file holds.
void check_places(const TiffHandle& handle, uint64_t file_bytes, int64_t pixel_bytes) {
  TIFF* tiff = handle.get();
  const uint32_t count =
      TIFFIsTiled(tiff) != 0 ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
  uint64_t packed = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t offset = TIFFGetStrileOffset(tiff, i), bytes = TIFFGetStrileByteCount(tiff, i);
    if (bytes == 0 || offset > file_bytes || bytes > file_bytes - offset) {
      fail<DataError>("the TIFF is truncated; fetch the file again or remove it");
    }
    packed += bytes;
  }
  const auto most = static_cast<uint64_t>(
      most_unpacked(tiff_tag<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE)));
  if (most != 0 && static_cast<uint64_t>(pixel_bytes) / most > packed) {
    fail<DataError>("the TIFF is truncated; fetch the file again or remove it");
  }
}

// Told once: a data set of such files would say it of each.
void warn_of_pages(TIFF* tiff) {
  if (TIFFLastDirectory(tiff) != 0) return;
  const ImageSize first = stored_size(tiff);
  if (TIFFReadDirectory(tiff) != 1) return;
  constexpr uint32_t kCopies = FILETYPE_REDUCEDIMAGE | FILETYPE_MASK;
  if ((tiff_tag<uint32_t>(tiff, TIFFTAG_SUBFILETYPE, 0) & kCopies) != 0) return;
  const ImageSize second = stored_size(tiff);
  if (second.height < first.height && second.width < first.width) return;  // of a pyramid
  static std::once_flag told;
  std::call_once(told, [&] {
    log_warning(
        fmt::format("a TIFF file has several pages, the first of {} x {} pixels, the second of {} "
                    "x {}: of each such file the first page is read; save other pages as files of "
                    "their own, or a stack of slices as NIfTI or npy",
                    first.width, first.height, second.width, second.height));
  });
}

// Decodes strips or tiles, and writes their pixels into the image.
class TiffImage {
 public:
  TiffImage(const TiffHandle& handle, uint64_t file_bytes)
      : handle_(handle),
        tiff_(handle.get()),
        size_(stored_size(tiff_)),
        is_tiled_(TIFFIsTiled(tiff_) != 0) {
    const int64_t pixels = size_.height * size_.width;
    handle_.fail_if_damaged("the TIFF is damaged");
    if (size_.height < 1 || size_.width < 1) handle_.fail_at("a TIFF without pixels");
    check_announced_pixels(size_.width, size_.height,
                           "make the image smaller, or read it by region: tiles of data.tiling, "
                           "format: slides, data patch, predict");
    colours_.emplace(handle_);
    const int64_t bits = pixels * colours_->bits() * colours_->samples();
    check_places(handle_, file_bytes, colours_->is_subsampled() ? 0 : bits / 8);
    checksums_.emplace(handle_);
    choose_blocks();
  }

  void decode(Image& image) {
    // The first block before memory for all: a file that cannot be read costs no more than that.
    const int64_t across = (size_.width + block_.width - 1) / block_.width;
    const int64_t down = (size_.height + block_.height - 1) / block_.height;
    for (int64_t i = 0; i < across * down; ++i) {
      const int64_t top = i / across * block_.height, left = i % across * block_.width;
      const ImageSize inside = {std::min(block_.height, size_.height - top),
                                std::min(block_.width, size_.width - left)};
      read_block(top, left, inside);
      if (i == 0) reshape(image, size_, colours_->channels());
      for (int64_t y = 0; y < inside.height; ++y) {
        colours_->write(
            samples_.data() + y * block_.width * colours_->samples(), inside.width,
            image.pixels.data() + ((top + y) * size_.width + left) * colours_->channels());
      }
    }
  }

 private:
  void choose_blocks() {
    const auto rows =
        tiff_tag<uint32_t>(tiff_, is_tiled_ ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, 0);
    block_ = {is_tiled_ ? int64_t{rows} : std::min<int64_t>(rows, size_.height), size_.width};
    if (is_tiled_) block_.width = tiff_tag<uint32_t>(tiff_, TIFFTAG_TILEWIDTH, 0);
    row_bytes_ = is_tiled_ ? TIFFTileRowSize64(tiff_) : TIFFScanlineSize64(tiff_);
    num_planes_ = colours_->is_planar() ? colours_->samples() : 1;
    const int64_t plane_samples = colours_->samples() / num_planes_;
    const int64_t most = kMaxTiffTileBytes / std::max<int64_t>(colours_->samples(), 1);
    is_by_row_ = !is_tiled_ && !colours_->needs_whole_blocks() && block_.height > 1 &&
                 block_.height > kWholeStripBytes / std::max<int64_t>(row_bytes_, 1);
    strip_rows_ = block_.height;
    if (is_by_row_) block_.height = 1;
    if (block_.height < 1 || block_.width < 1 || block_.width > most / 2 ||
        block_.height > most / 2 / block_.width) {
      fail<DataError>("a TIFF with strips or tiles of {} x {} pixels; expected at most {} bytes",
                      block_.width, block_.height, kMaxTiffTileBytes);
    }
    if (!colours_->needs_whole_blocks() &&
        row_bytes_ != (block_.width * plane_samples * colours_->bits() + 7) / 8) {
      handle_.fail_at(fmt::format("rows of {} bytes for {} pixels", row_bytes_, block_.width));
    }
    samples_.resize(static_cast<size_t>(block_.height * block_.width * colours_->samples()));
    if (!colours_->needs_whole_blocks())
      raw_.resize(static_cast<size_t>(block_.height * row_bytes_));
  }

  // The samples of the block at `top`, `left` as bytes, [rows, block width, samples].
  void read_block(int64_t top, int64_t left, const ImageSize& inside) {
    if (colours_->needs_whole_blocks()) return read_as_rgba(top, left, inside);
    const int64_t plane_samples = colours_->samples() / num_planes_;
    for (int64_t plane = 0; plane < num_planes_; ++plane) {
      const int64_t rows = read_raw(top, left, plane, inside.height);
      for (int64_t y = 0; y < std::min(rows, inside.height); ++y) {
        colours_->unpack(raw_.data() + y * row_bytes_, block_.width * plane_samples,
                         samples_.data() + y * block_.width * colours_->samples() + plane,
                         num_planes_);
      }
    }
  }

  // Returns the rows that it has: of the last strip those of the image.
  int64_t read_raw(int64_t top, int64_t left, int64_t plane, int64_t rows) {
    const auto x = static_cast<uint32_t>(left), y = static_cast<uint32_t>(top);
    const auto sample = static_cast<uint16_t>(plane);
    if (is_by_row_) {
      if (TIFFReadScanline(tiff_, raw_.data(), y, sample) != 1) fail_at_row(top);
      handle_.fail_if_damaged("the TIFF is damaged");
      const int64_t strip = std::min(strip_rows_, size_.height - top);
      if (top % strip_rows_ == 0) {
        checksums_->check(TIFFComputeStrip(tiff_, y, sample), strip * row_bytes_);
      }
      return 1;
    }
    const uint32_t block =
        is_tiled_ ? TIFFComputeTile(tiff_, x, y, 0, sample) : TIFFComputeStrip(tiff_, y, sample);
    const int64_t bytes = (is_tiled_ ? block_.height : rows) * row_bytes_;
    const tmsize_t got = is_tiled_ ? TIFFReadEncodedTile(tiff_, block, raw_.data(), bytes)
                                   : TIFFReadEncodedStrip(tiff_, block, raw_.data(), bytes);
    if (got != bytes) fail_at_row(top);
    handle_.fail_if_damaged("the TIFF is damaged");
    checksums_->check(block, std::span(raw_).first(static_cast<size_t>(bytes)));
    return is_tiled_ ? block_.height : rows;
  }

  // What only libtiff's own conversion knows, whole strips and tiles, from below.
  void read_as_rgba(int64_t top, int64_t left, const ImageSize& inside) {
    raster_.resize(static_cast<size_t>(block_.height * block_.width));
    const auto x = static_cast<uint32_t>(left), y = static_cast<uint32_t>(top);
    const int is_read = is_tiled_ ? TIFFReadRGBATileExt(tiff_, x, y, raster_.data(), 1)
                                  : TIFFReadRGBAStripExt(tiff_, y, raster_.data(), 1);
    if (is_read != 1) fail_at_row(top);
    handle_.fail_if_damaged("the TIFF is damaged");
    const int64_t rows = is_tiled_ ? block_.height : inside.height;
    for (int64_t row = 0; row < inside.height; ++row) {
      const uint32_t* from = raster_.data() + (rows - 1 - row) * block_.width;
      uint8_t* to = samples_.data() + row * block_.width * 3;
      for (int64_t i = 0; i < block_.width; ++i, to += 3) {
        to[0] = static_cast<uint8_t>(TIFFGetR(from[i]));
        to[1] = static_cast<uint8_t>(TIFFGetG(from[i]));
        to[2] = static_cast<uint8_t>(TIFFGetB(from[i]));
      }
    }
  }

  [[noreturn]] void fail_at_row(int64_t row) const {
    handle_.fail_at(
        fmt::format("the TIFF is damaged at row {}; fetch the file again or remove it", row));
  }

  const TiffHandle& handle_;
  TIFF* tiff_;
  ImageSize size_;
  bool is_tiled_;
  bool is_by_row_ = false;
  std::optional<TiffColours> colours_;
  std::optional<TiffChecksums> checksums_;
  ImageSize block_;  // a tile, a strip, or a row of one
  int64_t strip_rows_ = 1;
  int64_t row_bytes_ = 0;  // of a block, as it is unpacked
  int64_t num_planes_ = 1;
  std::vector<uint8_t> raw_, samples_;
  std::vector<uint32_t> raster_;
};

}  // namespace

void decode_tiff(std::span<const uint8_t> bytes, Image& image) {
  const TiffHandle handle = open_bytes(bytes);
  const int orientation = orientation_of(handle.get());
  TiffImage(handle, bytes.size()).decode(image);
  Image scratch;
  orient(image, orientation, scratch);
  warn_of_pages(handle.get());
}

std::optional<ImageSize> tiff_file_size(const HeaderFile& file) {
  const auto read = [&file](uint64_t offset, std::span<uint8_t> out) {
    return file.read_some(static_cast<int64_t>(offset), out);
  };
  const TiffHandle handle(read, file.size(), "", "rmO");
  const auto [height, width] = stored_size(handle.get());
  if (height < 1 || width < 1) return std::nullopt;
  const bool is_transposed = turn_of(orientation_of(handle.get())).is_transposed;
  return is_transposed ? ImageSize{width, height} : ImageSize{height, width};
}

}  // namespace fovea::data
