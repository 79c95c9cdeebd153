#include "fovea/data/pictures/pictures.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/resize_image.h"

namespace fovea::data {
namespace {

constexpr std::array<Rgb, 8> kClassColors = {{{230, 159, 0},
                                              {86, 180, 233},
                                              {0, 158, 115},
                                              {240, 228, 66},
                                              {213, 94, 0},
                                              {204, 121, 167},
                                              {0, 114, 178},
                                              {160, 160, 160}}};
constexpr int kTintShare = 110;  // of 256, of the class's colour

Image blank_picture(ImageSize size, const Rgb& color) {
  Image picture;
  reshape(picture, size, 3);
  for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = color[i % 3];
  return picture;
}

void paste(const Image& picture, int64_t top, int64_t left, Image& out) {
  for (int64_t y = 0; y < picture.height; ++y) {
    std::copy_n(picture.pixels.data() + 3 * y * picture.width, 3 * picture.width,
                out.pixels.data() + 3 * ((top + y) * out.width + left));
  }
}

ImageSize largest_of(const std::vector<Image>& pictures) {
  ImageSize size;
  for (const Image& picture : pictures) {
    size.height = std::max(size.height, picture.height);
    size.width = std::max(size.width, picture.width);
  }
  return size;
}

}  // namespace

Rgb class_color(int64_t label) {
  return kClassColors[static_cast<size_t>(std::max<int64_t>(label - 1, 0)) % kClassColors.size()];
}

Image to_rgb(const ImageView& image) {
  Image rgb;
  reshape(rgb, image.size(), 3);
  const int64_t step = image.channels >= 3 ? 1 : 0;
  uint8_t* out = rgb.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* pixel = image.row(y);
    for (int64_t x = 0; x < image.width; ++x, pixel += image.channels) {
      for (int64_t c = 0; c < 3; ++c) *out++ = pixel[c * step];
    }
  }
  return rgb;
}

void tint(const LabelMap& mask, Image& rgb) {
  const auto pixels = static_cast<size_t>(rgb.height * rgb.width);
  FOVEA_CHECK(mask.classes.size() == pixels && rgb.channels == 3,
              "a mask of {} pixels over a picture of {}", mask.classes.size(), pixels);
  for (size_t i = 0; i < pixels; ++i) {
    if (mask.classes[i] <= 0) continue;
    const Rgb color = class_color(mask.classes[i]);
    for (size_t c = 0; c < 3; ++c) {
      uint8_t& value = rgb.pixels[3 * i + c];
      value = static_cast<uint8_t>((value * (256 - kTintShare) + color[c] * kTintShare) / 256);
    }
  }
}

Image fit(const Image& rgb, int64_t side) {
  const int64_t longest = std::max(rgb.height, rgb.width);
  if (longest <= side) {
    const int64_t zoom = side / longest;
    return fit_exactly(rgb, {rgb.height * zoom, rgb.width * zoom});
  }
  return fit_exactly(rgb, with_longest_side({rgb.height, rgb.width}, side));
}

Image at_most(Image image, int64_t side) {
  const ImageSize size = {image.height, image.width};
  if (std::max(size.height, size.width) <= side) return image;
  Image small;
  ResizeScratch scratch;
  resize(ImageView(image), with_longest_side(size, side), Interpolation::kBilinear, small, scratch);
  return small;
}

Image fit_exactly(const Image& rgb, ImageSize size) {
  if (size == ImageSize{rgb.height, rgb.width}) return rgb;
  const bool is_enlarged = size.height >= 2 * rgb.height && size.width >= 2 * rgb.width;
  Image out;
  ResizeScratch scratch;
  resize(ImageView(rgb), size, is_enlarged ? Interpolation::kNearest : Interpolation::kBilinear,
         out, scratch);
  return out;
}

Image contact_sheet(const std::vector<Image>& pictures, const SheetOptions& options) {
  FOVEA_CHECK(!pictures.empty() && options.columns > 0, "a sheet of {} pictures in {} columns",
              pictures.size(), options.columns);
  const ImageSize cell = largest_of(pictures);
  const auto count = static_cast<int64_t>(pictures.size());
  const int64_t columns = std::min(options.columns, count);
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t gap = options.gap;
  Image sheet = blank_picture(
      {rows * (cell.height + gap) + gap, columns * (cell.width + gap) + gap}, options.background);
  for (int64_t i = 0; i < count; ++i) {
    const Image& picture = pictures[static_cast<size_t>(i)];
    paste(picture, gap + i / columns * (cell.height + gap) + (cell.height - picture.height) / 2,
          gap + i % columns * (cell.width + gap) + (cell.width - picture.width) / 2, sheet);
  }
  return sheet;
}

Image stack(const std::vector<Image>& pictures, const SheetOptions& options) {
  int64_t height = 0;
  for (const Image& picture : pictures) height += picture.height + options.gap;
  const int64_t width = largest_of(pictures).width;
  Image out =
      blank_picture({std::max<int64_t>(height - options.gap, 0), width}, options.background);
  int64_t top = 0;
  for (const Image& picture : pictures) {
    paste(picture, top, 0, out);
    top += picture.height + options.gap;
  }
  return out;
}

int64_t sheet_columns(int64_t count, ImageSize cell, int64_t group) {
  constexpr double kShape = 1.6;
  const double wanted =
      std::sqrt(static_cast<double>(count) * kShape * static_cast<double>(cell.height) /
                static_cast<double>(std::max<int64_t>(cell.width, 1)));
  const auto columns = std::clamp<int64_t>(std::llround(wanted), 1, std::max<int64_t>(count, 1));
  if (group < 2) return columns;
  if (columns >= group) return columns / group * group;
  int64_t divisor = columns;
  while (group % divisor != 0) --divisor;
  return 2 * divisor > columns ? divisor : columns;
}

}  // namespace fovea::data
