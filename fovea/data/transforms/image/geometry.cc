#include "fovea/data/transforms/image/geometry.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/keep_ratio.h"

namespace fovea::data {
namespace {

constexpr int kCropTries = 10;

struct Margins {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
  bool is_zero() const { return left == 0 && top == 0 && right == 0 && bottom == 0; }
};

Margins margins_from(const std::vector<int64_t>& padding) {
  if (padding.size() == 4) return {padding[0], padding[1], padding[2], padding[3]};
  return {padding.front(), padding.back(), padding.front(), padding.back()};
}

ImageSize padded_size(ImageSize in, const Margins& margins) {
  return {in.height + margins.top + margins.bottom, in.width + margins.left + margins.right};
}

ImageView pad(const ImageView& in, const Margins& margins, const std::string& mode, int64_t fill,
              TransformScratch& scratch) {
  if (margins.is_zero()) return in;
  const bool is_reflected = mode == "reflect";
  if (is_reflected && (std::max(margins.left, margins.right) >= in.width ||
                       std::max(margins.top, margins.bottom) >= in.height)) {
    fail<DataError>(
        "an image of {}x{} pixels is too small for padding of [{}, {}, {}, {}] by reflection; pad "
        "less or "
        "use mode: edge",
        in.height, in.width, margins.left, margins.top, margins.right, margins.bottom);
  }
  const auto value = static_cast<uint8_t>(fill);
  return crop_or_pad(in, -margins.top, -margins.left, padded_size(in.size(), margins),
                     pad_mode_from_name(mode), {value, value, value}, scratch);
}

ImageSize resized_size(const ResizeConfig& config, ImageSize in) {
  if (config.size.size() == 2) return exact_size(config.size);
  return shorter_edge_size(config.size[0], in);
}

ImageView crop(const ImageView& in, int64_t top, int64_t left, ImageSize size,
               TransformScratch& scratch) {
  scratch.geometry.append_crop(static_cast<double>(left), static_cast<double>(top), size);
  return in.crop(top, left, size);
}

}  // namespace

ImageSize shorter_edge_size(int64_t edge, ImageSize in) {
  const int64_t shorter = std::min(in.height, in.width);
  const int64_t longer = std::max(in.height, in.width);
  const auto scaled =
      static_cast<int64_t>(static_cast<double>(edge * longer) / static_cast<double>(shorter));
  return in.height <= in.width ? ImageSize{edge, scaled} : ImageSize{scaled, edge};
}

ImageView resize_exactly(const ImageView& in, ImageSize size, Interpolation interpolation,
                         TransformScratch& scratch) {
  if (size == in.size()) return in;
  Image& out = scratch.next_image();
  resize(in, size, interpolation, out, scratch.resize);
  scratch.geometry.append_resize(0, 0, in.size(), size);
  return ImageView(out);
}

std::optional<ImageSize> output_size(const ResizeConfig& config, std::optional<ImageSize> in) {
  if (config.size.size() == 2) return exact_size(config.size);
  if (!in) return std::nullopt;
  return resized_size(config, *in);
}

std::optional<ImageSize> output_size(const CenterCropConfig& config, std::optional<ImageSize>) {
  return exact_size(config.size);
}

std::optional<ImageSize> output_size(const RandomResizedCropConfig& config,
                                     std::optional<ImageSize>) {
  return exact_size(config.size);
}

std::optional<ImageSize> output_size(const RandomCropConfig& config, std::optional<ImageSize>) {
  return exact_size(config.size);
}

std::optional<ImageSize> output_size(const PadConfig& config, std::optional<ImageSize> in) {
  if (!in) return std::nullopt;
  return padded_size(*in, margins_from(config.padding));
}

std::optional<ImageSize> output_size(const HorizontalFlipConfig&, std::optional<ImageSize> in) {
  return in;
}

std::optional<ImageSize> output_size(const VerticalFlipConfig&, std::optional<ImageSize> in) {
  return in;
}

std::optional<PixelBox> center_box(const CenterCropConfig& config, ImageSize image) {
  const ImageSize size = exact_size(config.size);
  if (image.height < size.height || image.width < size.width) return std::nullopt;
  return PixelBox{round_half_even(static_cast<double>(image.height - size.height) / 2.0),
                  round_half_even(static_cast<double>(image.width - size.width) / 2.0), size};
}

ImageView apply(const ResizeConfig& config, const ImageView& in, RandomStream&,
                TransformScratch& scratch) {
  return resize_exactly(in, resized_size(config, in.size()),
                        interpolation_from_name(config.interpolation), scratch);
}

ImageView apply(const CenterCropConfig& config, const ImageView& in, RandomStream&,
                TransformScratch& scratch) {
  const ImageSize size = exact_size(config.size);
  const int64_t missing_rows = std::max<int64_t>(size.height - in.height, 0);
  const int64_t missing_columns = std::max<int64_t>(size.width - in.width, 0);
  const Margins margins = {missing_columns / 2, missing_rows / 2, (missing_columns + 1) / 2,
                           (missing_rows + 1) / 2};
  const ImageView padded = pad(in, margins, "constant", 0, scratch);
  const PixelBox box = center_box(config, padded.size()).value();
  return crop(padded, box.top, box.left, box.size, scratch);
}

CropBox draw_resized_crop(const RandomResizedCropConfig& config, ImageSize image,
                          RandomStream& random) {
  const auto area = static_cast<double>(image.height * image.width);
  for (int attempt = 0; attempt < kCropTries; ++attempt) {
    const double target_area = area * random.uniform(config.scale[0], config.scale[1]);
    const double aspect =
        std::exp(random.uniform(std::log(config.ratio[0]), std::log(config.ratio[1])));
    const ImageSize size = {round_half_even(std::sqrt(target_area / aspect)),
                            round_half_even(std::sqrt(target_area * aspect))};
    if (size.height < 1 || size.height > image.height || size.width < 1 || size.width > image.width)
      continue;
    const int64_t top = random.below(static_cast<uint32_t>(image.height - size.height + 1));
    const int64_t left = random.below(static_cast<uint32_t>(image.width - size.width + 1));
    return {top, left, size};
  }
  ImageSize size = image;
  const double aspect = static_cast<double>(image.width) / static_cast<double>(image.height);
  if (aspect < config.ratio[0]) {
    size.height = round_half_even(static_cast<double>(image.width) / config.ratio[0]);
  } else if (aspect > config.ratio[1]) {
    size.width = round_half_even(static_cast<double>(image.height) * config.ratio[1]);
  }
  size = {std::clamp<int64_t>(size.height, 1, image.height),
          std::clamp<int64_t>(size.width, 1, image.width)};
  return {(image.height - size.height) / 2, (image.width - size.width) / 2, size};
}

ImageView apply(const RandomResizedCropConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  const CropBox box = draw_resized_crop(config, in.size(), random);
  Image& out = scratch.next_image();
  resize(in.crop(box.top, box.left, box.size), exact_size(config.size),
         interpolation_from_name(config.interpolation), out, scratch.resize);
  scratch.geometry.append_resize(static_cast<double>(box.left), static_cast<double>(box.top),
                                 box.size, {out.height, out.width});
  return ImageView(out);
}

ImageView apply(const RandomCropConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  const ImageView padded = pad(in, margins_from(config.padding), config.mode, config.fill, scratch);
  const ImageSize size = exact_size(config.size);
  if (padded.height < size.height || padded.width < size.width) {
    fail<DataError>(
        "an image of {}x{} pixels, {}x{} with padding, is smaller than random_crop's {}x{}; pad "
        "more, "
        "resize before or crop less",
        in.height, in.width, padded.height, padded.width, size.height, size.width);
  }
  const int64_t top = random.below(static_cast<uint32_t>(padded.height - size.height + 1));
  const int64_t left = random.below(static_cast<uint32_t>(padded.width - size.width + 1));
  return crop(padded, top, left, size, scratch);
}

ImageView apply(const PadConfig& config, const ImageView& in, RandomStream&,
                TransformScratch& scratch) {
  return pad(in, margins_from(config.padding), config.mode, config.fill, scratch);
}

ImageView apply(const HorizontalFlipConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  if (!random.bernoulli(config.p)) return in;
  scratch.geometry.append_horizontal_flip();
  Image& out = scratch.next_image();
  reshape(out, in.size(), in.channels);
  uint8_t* target = out.pixels.data();
  for (int64_t y = 0; y < in.height; ++y) {
    const uint8_t* pixel = in.row(y) + (in.width - 1) * in.channels;
    for (int64_t x = 0; x < in.width; ++x, pixel -= in.channels) {
      for (int64_t c = 0; c < in.channels; ++c) *target++ = pixel[c];
    }
  }
  return ImageView(out);
}

ImageView apply(const VerticalFlipConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  if (!random.bernoulli(config.p)) return in;
  scratch.geometry.append_vertical_flip();
  ImageView flipped = in;
  flipped.pixels = in.row(in.height - 1);
  flipped.row_stride = -in.row_stride;
  return flipped;
}

}  // namespace fovea::data
