// Images that are too large for memory, read a rectangle at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/scalar_type.h"

namespace fovea::data {

inline constexpr int64_t kMaxRegionSide = int64_t{1} << 20;  // what a tree over an image takes
inline constexpr int64_t kMaxRegionChannels = 64;

// What a large image is, wherever it lies.
struct RegionFormat {
  ImageSize size;
  int64_t channels = 1;
  ScalarType type = ScalarType::kUint8;
  int64_t block_height = 1;  // rows that are stored together: the tiles' or the strips'

  int64_t pixel_bytes() const { return channels * bytes_of(type); }
  int64_t row_bytes() const { return size.width * pixel_bytes(); }
};

// Not thread-safe: a thread opens its own.
class RegionSource {
 public:
  virtual ~RegionSource() = default;
  RegionSource(const RegionSource&) = delete;
  RegionSource& operator=(const RegionSource&) = delete;

  // What messages call it.
  const std::string& name() const { return name_; }
  const RegionFormat& format() const { return format_; }
  // The pixels of a rectangle inside the image, [h, w, C] in format().type and the machine's byte
  // order. Throws DataError naming the file: truncated or damaged there, the disk does not answer;
  // Error where the rectangle is not inside, or `out` has another size.
  void read(const PixelBox& region, std::span<uint8_t> out) const;

 protected:
  // Throws DataError where a side or the number of channels is out of range.
  RegionSource(std::string name, const RegionFormat& format);
  virtual void read_inside(const PixelBox& region, uint8_t* out) const = 0;

 private:
  std::string name_;
  RegionFormat format_;
};

// An image in memory, so that what is written for large images also takes small ones.
class ImageSource : public RegionSource {
 public:
  ImageSource(std::string name, Image image);

 protected:
  void read_inside(const PixelBox& region, uint8_t* out) const override;

 private:
  Image image_;
};

// Which pixels of a slide: a level by its number, or by its microns a pixel; neither: level 0.
struct SlideScale {
  std::optional<int64_t> level = {};
  std::optional<double> mpp = {};
  bool is_given() const { return level || mpp; }
};

// Opens whole-slide images, told by their endings or by a scale that is given; else TIFF files and
// other images, told apart by their first bytes, the latter decoded as a whole, with the limits of
// load_image. Throws DataError; ConfigError where a slide has no such scale.
std::unique_ptr<RegionSource> open_region_source(const std::string& path,
                                                 const SlideScale& scale = {});

// The rows of an image from above, read in bands of whole rows: at most `band_bytes` at a time, but
// at least one row. Bands end where rows of tiles do, so that a walk decodes each tile once unless
// a row of tiles is larger than a band.
class RegionRows {
 public:
  RegionRows(const RegionSource& source, int64_t band_bytes);
  // Row y as stored, [W, C]; valid until the next call. Any order, ascending is fast.
  const uint8_t* row(int64_t y);

 private:
  const RegionSource& source_;
  int64_t band_height_ = 1;
  int64_t first_ = 0;
  int64_t count_ = 0;
  std::vector<uint8_t> band_;
};

// Row y as stored, [W, C], to float. Throws DataError naming the first number that is not finite.
void row_to_floats(const RegionSource& source, int64_t y, const uint8_t* row, float* out);

}  // namespace fovea::data
