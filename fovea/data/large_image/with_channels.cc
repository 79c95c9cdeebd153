#include "fovea/data/large_image/with_channels.h"

#include "fovea/core/error.h"
#include "fovea/data/image/gray_and_colour.h"

namespace fovea::data {
namespace {

RegionFormat format_with(RegionFormat format, int64_t channels) {
  format.channels = channels;
  return format;
}

class ConvertedRegions : public RegionSource {
 public:
  ConvertedRegions(const RegionSource& image, int64_t channels)
      : RegionSource(image.name(), format_with(image.format(), channels)), image_(image) {}

 protected:
  void read_inside(const PixelBox& region, uint8_t* out) const override {
    const int64_t pixels = region.size.height * region.size.width;
    stored_.resize(static_cast<size_t>(pixels * image_.format().channels));
    image_.read(region, stored_);
    if (format().channels == 3) {
      gray_to_rgb(stored_.data(), pixels, out);
    } else {
      rgb_to_gray(stored_.data(), pixels, out);
    }
  }

 private:
  const RegionSource& image_;
  mutable std::vector<uint8_t> stored_;
};

}  // namespace

std::unique_ptr<RegionSource> with_channels(const RegionSource& image, int64_t channels) {
  const RegionFormat& format = image.format();
  if (format.channels == channels) return nullptr;
  const bool is_converted =
      (format.channels == 1 && channels == 3) || (format.channels == 3 && channels == 1);
  if (!is_converted || format.type != ScalarType::kUint8) {
    fail<ConfigError>(
        "{}: an image with {} channel(s) of {} cannot become one with {}; expected as many as the "
        "model's in_chans, or colours or gray in bytes",
        image.name(), format.channels, name_of(format.type), channels);
  }
  return std::make_unique<ConvertedRegions>(image, channels);
}

}  // namespace fovea::data
