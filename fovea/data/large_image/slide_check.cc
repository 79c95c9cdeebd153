#include "fovea/data/large_image/slide_check.h"

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/core/printable.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/data/large_image/tiff_handle.h"
#include "fovea/files/byte_reader.h"

namespace fovea::data {
namespace {

constexpr int64_t kMaxDirectories = 1024;
constexpr uint64_t kMaxEntries = 65535;
constexpr int64_t kMaxTiles = int64_t{1} << 24;  // of a level: 1,048,576 pixels a side in 256s

// The directories as they stand in the file, which OpenSlide reads by itself before libtiff does.
class DirectoryWalk {
 public:
  explicit DirectoryWalk(const InputFile& file) : file_(file), name_(file.name()) {
    std::array<uint8_t, 16> head{};
    file.read_some(0, head);
    order_ = head[0] == 'M' ? std::endian::big : std::endian::little;
    is_big_ = load_number<uint16_t>(&head[2], order_) == kBigTiff;
    next_ =
        is_big_ ? load_number<uint64_t>(&head[8], order_) : load_number<uint32_t>(&head[4], order_);
  }

  bool is_ndpi() const { return is_ndpi_; }

  // -> how many there are, until they end or the file does.
  int64_t check() {
    int64_t directory = 0;
    for (; next_ != 0; ++directory) {
      if (directory == kMaxDirectories) {
        fail<DataError>("{}: more than {} images; expected the levels of a slide", name_,
                        kMaxDirectories);
      }
      check_directory(directory);
    }
    return directory;
  }

 private:
  static constexpr uint16_t kBigTiff = 43, kNdpiTag = 65420;

  // A number of 2, 4 or 8 bytes.
  uint64_t number(const uint8_t* at, size_t bytes) const {
    if (bytes == 2) return load_number<uint16_t>(at, order_);
    return bytes == 4 ? load_number<uint32_t>(at, order_) : load_number<uint64_t>(at, order_);
  }

  void check_directory(int64_t directory) {
    const size_t count_bytes = is_big_ ? 8 : 2, wide = is_big_ ? 8 : 4, entry_bytes = 4 + 2 * wide;
    const uint64_t at = std::exchange(next_, 0);
    std::array<uint8_t, 8> first{};
    if (file_.read_some(at, std::span(first).first(count_bytes)) != count_bytes) return;
    const uint64_t count = number(first.data(), count_bytes);
    if (count > kMaxEntries) {
      fail<DataError>("{}: image {} has {} tags; expected at most {}; the file is damaged", name_,
                      directory, count, kMaxEntries);
    }
    std::vector<uint8_t> bytes(count * entry_bytes + 8);
    const size_t got = file_.read_some(at + count_bytes, bytes);
    if (got < count * entry_bytes) return;
    for (uint64_t i = 0; i < count; ++i) {
      const uint8_t* entry = bytes.data() + i * entry_bytes;
      const auto tag = load_number<uint16_t>(entry, order_);
      const auto values = number(entry + 4, wide);
      is_ndpi_ |= tag == kNdpiTag;
      const auto size = static_cast<uint64_t>(
          TIFFDataWidth(static_cast<TIFFDataType>(load_number<uint16_t>(entry + 2, order_))));
      if (size == 0 || values <= file_.size() / size) continue;
      fail<DataError>(
          "{}: tag {} of image {} has {} values, more than the file; it is truncated or damaged",
          name_, tag, directory, values);
    }
    // NDPI keeps 32 bits of offsets, but 64 of this one.
    const size_t next_bytes = is_ndpi_ ? 8 : wide;
    if (got >= count * entry_bytes + next_bytes)
      next_ = number(bytes.data() + count * entry_bytes, next_bytes);
  }

  const InputFile& file_;
  std::string name_;
  std::endian order_ = std::endian::little;
  bool is_big_ = false, is_ndpi_ = false;
  uint64_t next_ = 0;
};

struct TiledLevel {
  ImageSize size, tile;

  int64_t across() const { return (size.width + tile.width - 1) / tile.width; }
  int64_t down() const { return (size.height + tile.height - 1) / tile.height; }
};

TiledLevel level_of(TIFF* tiff) {
  return {{tiff_tag<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0),
           tiff_tag<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0)},
          {tiff_tag<uint32_t>(tiff, TIFFTAG_TILELENGTH, 0),
           tiff_tag<uint32_t>(tiff, TIFFTAG_TILEWIDTH, 0)}};
}

bool is_side(int64_t side) { return side >= 1 && side <= kMaxRegionSide; }

void check_level(TIFF* tiff, const TiledLevel& level, int64_t directory, const std::string& name) {
  const auto& [size, tile] = level;
  const bool fits = is_side(size.height) && is_side(size.width) && is_side(tile.height) &&
                    is_side(tile.width) && tile.height * tile.width * 4 <= kMaxTiffTileBytes &&
                    level.across() * level.down() <= kMaxTiles;
  if (!fits) {
    fail<DataError>(
        "{}: image {} of {} x {} pixels in tiles of {} x {}; expected sides of 1 to {}, tiles of "
        "at "
        "most {} bytes, and at most {} of them",
        name, directory, size.width, size.height, tile.width, tile.height, kMaxRegionSide,
        kMaxTiffTileBytes, kMaxTiles);
  }
  const auto count = static_cast<int64_t>(TIFFNumberOfTiles(tiff));
  for (int64_t i = 0; i < count; ++i) {
    int error = 0;
    const auto bytes = TIFFGetStrileByteCountWithErr(tiff, static_cast<uint32_t>(i), &error);
    if (error == 0 && bytes <= static_cast<uint64_t>(kMaxTiffTileBytes)) continue;
    fail<DataError>(
        "{}: tile {} of image {} has {}; expected at most {}; the file is truncated or damaged",
        name, i, directory, error == 0 ? fmt::format("{} bytes", bytes) : "no size",
        kMaxTiffTileBytes);
  }
}

bool is_aperio(TIFF* tiff) {
  const auto* text = tiff_tag<const char*>(tiff, TIFFTAG_IMAGEDESCRIPTION, nullptr);
  return text != nullptr && std::strncmp(text, "Aperio", 6) == 0;
}

}  // namespace

void check_slide(const std::string& path) {
  if (!is_tiff_file(path)) return;
  InputFile file(path);
  const std::string name = file.name();
  DirectoryWalk walk(file);
  const int64_t count = walk.check();
  std::optional<TiffHandle> handle;
  try {
    handle.emplace(file.descriptor(), name, "rm");
  } catch (const DataError&) {  // OpenSlide says what it makes of it
    return;
  }
  file.release();  // libtiff closes it
  TIFF* tiff = handle->get();
  const bool has_missing_tiles = is_aperio(tiff);
  std::optional<TiledLevel> above;
  int64_t directory = 0;
  do {
    if (TIFFIsTiled(tiff) == 0) continue;
    const auto level = level_of(tiff);
    check_level(tiff, level, directory, name);
    // OpenSlide divides tiles of a level by those of the one above, rounded.
    if (has_missing_tiles && above &&
        (level.across() > 2 * above->across() || level.down() > 2 * above->down())) {
      fail<DataError>(
          "{}: image {} of {} x {} pixels is larger than the level above it; the file "
          "is damaged",
          name, directory, level.size.width, level.size.height);
    }
    above = level;
  } while (++directory < kMaxDirectories && TIFFReadDirectory(tiff) == 1);
  // OpenSlide would leave out the levels from there on. Of NDPI files it reads more than libtiff.
  if (directory < count && !walk.is_ndpi())
    handle->fail_at(fmt::format("image {} of {} cannot be read", directory, count));
}

}  // namespace fovea::data
