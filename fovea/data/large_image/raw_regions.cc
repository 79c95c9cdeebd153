#include "fovea/data/large_image/raw_regions.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/files/byte_source.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr int64_t kRawBlockHeight = 64;  // rows that one request to the disk is worth

RegionFormat format_of(const RawRegionLayout& layout) {
  const auto& shape = layout.shape;
  const bool is_known = layout.axes == "HW" || layout.axes == "HWC" || layout.axes == "CHW";
  if (!is_known || shape.size() != layout.axes.size()) {
    fail<ConfigError>("axes {} of sizes [{}]; expected HW, HWC or CHW and a size for each",
                      layout.axes, fmt::join(shape, ", "));
  }
  RegionFormat format;
  format.size = {shape[layout.axes.find('H')], shape[layout.axes.find('W')]};
  const size_t channel = layout.axes.find('C');
  if (channel != std::string::npos) format.channels = shape[channel];
  format.type = layout.type;
  format.block_height = kRawBlockHeight;
  return format;
}

class RawRegions : public RegionSource {
 public:
  RawRegions(const std::string& path, const RawRegionLayout& layout)
      : RegionSource(printable(path), format_of(layout)), layout_(layout), file_(path) {
    const auto wanted = static_cast<uint64_t>(format().size.height * format().row_bytes());
    // The product is below 2^40 * 2^6 * 2^3, so that only the offset could overflow.
    if (layout.offset > file_.size() || file_.size() - layout.offset != wanted) {
      fail<DataError>(
          "{}: {} bytes; expected {}: {} of {} behind {} bytes; correct shape, dtype "
          "or offset",
          name(), file_.size(), layout.offset + wanted, fmt::join(layout.shape, " x "),
          name_of(layout.type), layout.offset);
    }
  }

 protected:
  void read_inside(const PixelBox& region, uint8_t* out) const override {
    if (layout_.axes == "CHW" && format().channels > 1) {
      read_planes(region, out);
    } else {
      read_rows(region, 0, format().pixel_bytes(), out);
    }
    const int64_t size = bytes_of(layout_.type);
    if (layout_.order == std::endian::native || size == 1) return;
    const int64_t count = region.size.height * region.size.width * format().channels;
    for (int64_t i = 0; i < count; ++i) std::reverse(out + i * size, out + (i + 1) * size);
  }

 private:
  // Rows of one plane; whole rows in one go.
  void read_rows(const PixelBox& region, int64_t plane, int64_t pixel, uint8_t* out) const {
    const auto& [height, width] = format().size;
    const bool is_whole = region.size.width == width;
    const int64_t rows = is_whole ? 1 : region.size.height;
    const int64_t bytes = region.size.width * pixel * (is_whole ? region.size.height : 1);
    for (int64_t y = 0; y < rows; ++y, out += bytes) {
      const int64_t at = ((plane * height + region.top + y) * width + region.left) * pixel;
      file_.read(layout_.offset + static_cast<uint64_t>(at), {out, static_cast<size_t>(bytes)});
    }
  }

  void read_planes(const PixelBox& region, uint8_t* out) const {
    const int64_t size = bytes_of(layout_.type);
    const int64_t pixels = region.size.height * region.size.width;
    std::vector<uint8_t> plane(static_cast<size_t>(pixels * size));
    for (int64_t c = 0; c < format().channels; ++c) {
      read_rows(region, c, size, plane.data());
      for (int64_t i = 0; i < pixels; ++i) {
        std::copy_n(plane.data() + i * size, size, out + (i * format().channels + c) * size);
      }
    }
  }

  RawRegionLayout layout_;
  FileSource file_;
};

}  // namespace

std::unique_ptr<RegionSource> open_raw_regions(const std::string& path,
                                               const RawRegionLayout& layout) {
  return std::make_unique<RawRegions>(path, layout);
}

}  // namespace fovea::data
