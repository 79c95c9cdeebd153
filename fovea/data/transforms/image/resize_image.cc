#include "fovea/data/transforms/image/resize_image.h"

#include <algorithm>
#include <cstring>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

void copy_rows(const ImageView& in, Image& out) {
  const auto row_bytes = static_cast<size_t>(in.width * in.channels);
  for (int64_t y = 0; y < in.height; ++y) {
    std::memcpy(out.pixels.data() + static_cast<size_t>(y) * row_bytes, in.row(y), row_bytes);
  }
}

void resize_nearest(const ImageView& in, ImageSize size, Image& out,
                    std::vector<int32_t>& positions) {
  // Positions add up step by step, as in Pillow: a product rounds differently.
  const double step_x = static_cast<double>(in.width) / static_cast<double>(size.width);
  const double step_y = static_cast<double>(in.height) / static_cast<double>(size.height);
  positions.resize(static_cast<size_t>(size.width));
  double x_in = step_x * 0.5;
  for (int32_t& position : positions) {
    position = static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(x_in), in.width - 1));
    x_in += step_x;
  }
  uint8_t* target = out.pixels.data();
  double y_in = step_y * 0.5;
  for (int64_t y = 0; y < size.height; ++y) {
    const uint8_t* row = in.row(std::min<int64_t>(static_cast<int64_t>(y_in), in.height - 1));
    for (const int32_t position : positions) {
      std::memcpy(target, row + position * in.channels, static_cast<size_t>(in.channels));
      target += in.channels;
    }
    y_in += step_y;
  }
}

}  // namespace

Interpolation interpolation_from_name(std::string_view name) {
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "bicubic") return Interpolation::kBicubic;
  fail<ConfigError>("interpolation={}; expected nearest, bilinear or bicubic", name);
}

void resize(const ImageView& in, ImageSize size, Interpolation interpolation, Image& out,
            ResizeScratch& scratch) {
  FOVEA_CHECK(in.height > 0 && in.width > 0 && size.height > 0 && size.width > 0,
              "resize from {}x{} to {}x{}; sizes must be above 0", in.height, in.width, size.height,
              size.width);
  reshape(out, size, in.channels);
  if (interpolation == Interpolation::kNearest) {
    resize_nearest(in, size, out, scratch.positions);
    return;
  }
  if (in.size() == size) return copy_rows(in, out);
  scratch.resampler.prepare({.vertical = ResizeAxis::whole(in.height, size.height),
                             .horizontal = ResizeAxis::whole(in.width, size.width),
                             .interpolation = interpolation,
                             .channels = in.channels});
  ViewSource source(in, scratch.copies);
  ImageSink sink(out);
  scratch.resampler.run(source, sink);
}

}  // namespace fovea::data
