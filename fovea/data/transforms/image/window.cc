#include "fovea/data/transforms/image/window.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// Position inside [0, count) that position `at` repeats; -1: none.
int64_t source_position(int64_t at, int64_t count, PadMode mode) {
  if (at >= 0 && at < count) return at;
  if (mode == PadMode::kConstant) return -1;
  if (mode == PadMode::kEdge || count == 1) return std::clamp<int64_t>(at, 0, count - 1);
  const int64_t period = 2 * (count - 1);
  const int64_t place = ((at % period) + period) % period;
  return std::min(place, period - place);
}

void fill_pixels(const FillColor& fill, int64_t channels, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < channels; ++c) *out++ = fill[std::min<int64_t>(c, 2)];
  }
}

// Where the centred window starts; below 0 where the image is smaller.
int64_t centred_start(int64_t image, int64_t window) {
  if (image < window) return -((window - image) / 2);
  return round_half_even(static_cast<double>(image - window) / 2.0);
}

// A place from 0 to the difference, on its side of 0.
int64_t draw_start(int64_t image, int64_t window, RandomStream& random) {
  const int64_t difference = image - window;
  const int64_t place = random.below(static_cast<uint32_t>(std::abs(difference) + 1));
  return difference < 0 ? -place : place;
}

}  // namespace

PadMode pad_mode_from_name(std::string_view name) {
  if (name == "constant") return PadMode::kConstant;
  if (name == "edge") return PadMode::kEdge;
  if (name == "reflect") return PadMode::kReflect;
  fail<ConfigError>("mode={}; expected constant, edge or reflect", name);
}

FillColor fill_color(const std::vector<int64_t>& fill) {
  return {static_cast<uint8_t>(fill.front()), static_cast<uint8_t>(fill[fill.size() / 2]),
          static_cast<uint8_t>(fill.back())};
}

ImageView crop(const ImageView& in, int64_t top, int64_t left, ImageSize size,
               TransformScratch& scratch) {
  scratch.geometry.append_crop(static_cast<double>(left), static_cast<double>(top), size);
  return in.crop(top, left, size);
}

ImageView crop_or_pad(const ImageView& in, int64_t top, int64_t left, ImageSize size, PadMode mode,
                      const FillColor& fill, TransformScratch& scratch) {
  scratch.geometry.append_crop(static_cast<double>(left), static_cast<double>(top), size);
  if (top >= 0 && left >= 0 && top + size.height <= in.height && left + size.width <= in.width) {
    return in.crop(top, left, size);
  }
  Image& out = scratch.next_image();
  reshape(out, size, in.channels);
  const int64_t first = std::clamp<int64_t>(-left, 0, size.width);  // columns inside
  const int64_t last = std::clamp<int64_t>(in.width - left, first, size.width);
  const auto bytes = static_cast<size_t>(in.channels);
  for (int64_t y = 0; y < size.height; ++y) {
    uint8_t* row = out.pixels.data() + y * size.width * in.channels;
    const int64_t from_y = source_position(top + y, in.height, mode);
    if (from_y < 0) {
      fill_pixels(fill, in.channels, size.width, row);
      continue;
    }
    const uint8_t* from = in.row(from_y);
    const auto border = [&](int64_t begin, int64_t end) {
      for (int64_t x = begin; x < end; ++x) {
        const int64_t from_x = source_position(left + x, in.width, mode);
        uint8_t* pixel = row + x * in.channels;
        if (from_x < 0) {
          fill_pixels(fill, in.channels, 1, pixel);
        } else {
          std::memcpy(pixel, from + from_x * in.channels, bytes);
        }
      }
    };
    border(0, first);
    if (last > first) {
      std::memcpy(row + first * in.channels, from + (left + first) * in.channels,
                  static_cast<size_t>(last - first) * bytes);
    }
    border(last, size.width);
  }
  return ImageView(out);
}

PixelBox centre_box(ImageSize image, ImageSize size) {
  return {centred_start(image.height, size.height), centred_start(image.width, size.width), size};
}

ImageView centre(const ImageView& in, ImageSize size, PadMode mode, const FillColor& fill,
                 TransformScratch& scratch) {
  const PixelBox box = centre_box(in.size(), size);
  return crop_or_pad(in, box.top, box.left, size, mode, fill, scratch);
}

ImageView random_crop_or_pad(const ImageView& in, ImageSize size, PadMode mode,
                             const FillColor& fill, RandomStream& random,
                             TransformScratch& scratch) {
  const int64_t top = draw_start(in.height, size.height, random);
  const int64_t left = draw_start(in.width, size.width, random);
  return crop_or_pad(in, top, left, size, mode, fill, scratch);
}

}  // namespace fovea::data
