#include "fovea/data/large_image/region_source.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/large_image/slide.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/byte_reader.h"

namespace fovea::data {
namespace {

bool is_float(ScalarType type) {
  return type == ScalarType::kFloat16 || type == ScalarType::kFloat32 ||
         type == ScalarType::kFloat64;
}

}  // namespace

RegionSource::RegionSource(std::string name, const RegionFormat& format)
    : name_(std::move(name)), format_(format) {
  const auto& [height, width] = format.size;
  if (height < 1 || width < 1 || height > kMaxRegionSide || width > kMaxRegionSide ||
      format.channels < 1 || format.channels > kMaxRegionChannels) {
    fail<DataError>("{}: {}x{} pixels of {} channels; expected sides of 1 to {}, 1 to {} channels",
                    name_, height, width, format.channels, kMaxRegionSide, kMaxRegionChannels);
  }
}

void RegionSource::read(const PixelBox& region, std::span<uint8_t> out) const {
  const auto& [height, width] = region.size;
  FOVEA_CHECK(region.top >= 0 && region.left >= 0 && height > 0 && width > 0 &&
                  region.top <= format_.size.height - height &&
                  region.left <= format_.size.width - width,
              "{}: {}x{} pixels at row {}, column {} of {}x{}", name_, height, width, region.top,
              region.left, format_.size.height, format_.size.width);
  FOVEA_CHECK(static_cast<int64_t>(out.size()) == height * width * format_.pixel_bytes(),
              "{}: {} bytes for {}x{} pixels of {}", name_, out.size(), height, width,
              format_.pixel_bytes());
  read_inside(region, out.data());
}

ImageSource::ImageSource(std::string name, Image image)
    : RegionSource(std::move(name), {{image.height, image.width}, image.channels}),
      image_(std::move(image)) {
  FOVEA_CHECK(
      static_cast<int64_t>(image_.pixels.size()) == image_.height * image_.width * image_.channels,
      "{} bytes for an image of {}x{}x{}", image_.pixels.size(), image_.height, image_.width,
      image_.channels);
}

void ImageSource::read_inside(const PixelBox& region, uint8_t* out) const {
  const ImageView view = ImageView(image_).crop(region.top, region.left, region.size);
  const int64_t bytes = view.width * view.channels;
  for (int64_t y = 0; y < view.height; ++y) out = std::copy_n(view.row(y), bytes, out);
}

std::unique_ptr<RegionSource> open_region_source(const std::string& path, const SlideScale& scale) {
  if (scale.is_given() || is_slide_name(path)) {
    auto slide = std::make_shared<const Slide>(path);
    const int64_t level = find_level(*slide, scale);
    return open_slide_level(std::move(slide), level);
  }
  if (is_tiff_file(path)) return open_tiff(path);
  return std::make_unique<ImageSource>(path, load_image(path));
}

RegionRows::RegionRows(const RegionSource& source, int64_t band_bytes) : source_(source) {
  const RegionFormat& format = source.format();
  const int64_t rows = std::max<int64_t>(band_bytes / format.row_bytes(), 1);
  const int64_t block = format.block_height;
  band_height_ = std::min(rows >= block ? rows / block * block : rows, format.size.height);
}

const uint8_t* RegionRows::row(int64_t y) {
  const RegionFormat& format = source_.format();
  if (y < first_ || y >= first_ + count_) {
    first_ = y / band_height_ * band_height_;
    count_ = 0;  // nothing, should the reading fail
    const int64_t height = std::min(band_height_, format.size.height - first_);
    band_.resize(static_cast<size_t>(height * format.row_bytes()));
    source_.read({first_, 0, {height, format.size.width}}, band_);
    count_ = height;
  }
  return band_.data() + (y - first_) * format.row_bytes();
}

void row_to_floats(const RegionSource& source, int64_t y, const uint8_t* row, float* out) {
  const RegionFormat& format = source.format();
  const int64_t count = format.size.width * format.channels;
  with_scalar(format.type, [&](auto number) {
    using T = decltype(number);
    for (int64_t i = 0; i < count; ++i) {
      const auto* at = row + i * static_cast<int64_t>(sizeof(T));
      out[i] = static_cast<float>(load_number<T>(at, std::endian::native));
    }
  });
  if (!is_float(format.type)) return;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isfinite(out[i])) continue;
    fail<DataError>("{}: the number at row {}, column {} is {}; expected finite numbers",
                    source.name(), y, i / format.channels, out[i]);
  }
}

}  // namespace fovea::data
