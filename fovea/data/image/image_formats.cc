#include "fovea/data/image/image_formats.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/data/image/bmp.h"
#include "fovea/data/image/jpeg.h"
#include "fovea/data/image/png.h"
#include "fovea/data/image/tiff_decode.h"
#include "fovea/data/image/webp.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr ImageFormat kFormats[] = {
    {"JPEG", {"jpg", "jpeg"}, is_jpeg, decode_jpeg, jpeg_file_size},
    {"PNG", {"png"}, is_png, decode_png, png_file_size},
    {"TIFF", {"tif", "tiff"}, is_tiff, decode_tiff, tiff_file_size},
    {"WebP", {"webp"}, is_webp, decode_webp, webp_file_size},
    {"BMP", {"bmp"}, is_bmp, decode_bmp, bmp_file_size},
};

}  // namespace

const ImageFormat* find_image_format(std::span<const uint8_t> bytes) {
  bytes = bytes.first(std::min(bytes.size(), kImageStartBytes));
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const ImageFormat& format) { return format.is_of(bytes); });
  return found == std::end(kFormats) ? nullptr : found;
}

std::vector<std::string> image_endings() {
  std::vector<std::string> all;
  for (const ImageFormat& format : kFormats) {
    for (const std::string_view ending : format.endings) {
      if (!ending.empty()) all.emplace_back(ending);
    }
  }
  return all;
}

bool is_image_name(std::string_view name) {
  std::string ending = lower_ending(name);
  if (ending.size() < 2) return false;
  ending.erase(0, 1);
  return std::any_of(std::begin(kFormats), std::end(kFormats), [&](const ImageFormat& format) {
    return std::find(format.endings.begin(), format.endings.end(), ending) != format.endings.end();
  });
}

std::string image_kinds() {
  std::string text;
  const size_t count = std::size(kFormats);
  for (size_t i = 0; i < count; ++i) {
    text += i == 0 ? "" : i + 1 == count ? " or " : ", ";
    text += kFormats[i].name;
  }
  return text;
}

std::string image_endings_text() { return fmt::format(".{}", fmt::join(image_endings(), ", .")); }

}  // namespace fovea::data
