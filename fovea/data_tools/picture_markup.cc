#include "fovea/data_tools/picture_markup.h"

#include <fmt/format.h>

#include <vector>

#include "fovea/core/base64.h"
#include "fovea/data/image/jpeg_encode.h"
#include "fovea/data/image/png.h"

namespace fovea::data {
namespace {

constexpr int kPictureQuality = 88;

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// PNG where edges are hard: for trees, and where it is about as small as a JPEG, as of small
// pictures that were enlarged.
std::string picture_uri(const Image& picture, bool is_exact) {
  const auto png = png_text(picture);
  std::vector<uint8_t> jpeg;
  if (!is_exact) encode_jpeg(ImageView(picture), kPictureQuality, jpeg);
  if (is_exact || png.size() < 2 * jpeg.size()) {
    return "data:image/png;base64," + base64_encode(png);
  }
  return "data:image/jpeg;base64," + base64_encode(text_of(jpeg));
}

}  // namespace

std::string png_text(const Image& picture) { return text_of(encode_png(picture)); }

html::Markup picture_markup(const Image& picture, const std::string& words, bool is_exact) {
  return html::void_element("img", {{"src", picture_uri(picture, is_exact)},
                                    {"alt", words},
                                    {"width", std::to_string(picture.width)},
                                    {"height", std::to_string(picture.height)},
                                    {"loading", "lazy"}});
}

html::Markup swatch_markup(const Rgb& color) {
  const auto [red, green, blue] = color;
  return html::element(
      "i", {{"style", fmt::format("background:rgb({},{},{});height:10px", red, green, blue)}}, {});
}

}  // namespace fovea::data
