#include "fovea/data/transforms/image/keep_ratio.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

Interpolation draw_interpolation(const std::string& name, RandomStream& random) {
  if (name != "random") return interpolation_from_name(name);
  return random.below(2) == 0 ? Interpolation::kBilinear : Interpolation::kBicubic;
}

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

ImageView centre(const ImageView& in, ImageSize size, PadMode mode, const FillColor& fill,
                 TransformScratch& scratch) {
  return crop_or_pad(in, centred_start(in.height, size.height), centred_start(in.width, size.width),
                     size, mode, fill, scratch);
}

// A place from 0 to the difference, on its side of 0.
int64_t draw_start(int64_t image, int64_t window, RandomStream& random) {
  const int64_t difference = image - window;
  const int64_t place = random.below(static_cast<uint32_t>(std::abs(difference) + 1));
  return difference < 0 ? -place : place;
}

ImageView random_crop_or_pad(const ImageView& in, ImageSize size, PadMode mode,
                             const FillColor& fill, RandomStream& random,
                             TransformScratch& scratch) {
  const int64_t top = draw_start(in.height, size.height, random);
  const int64_t left = draw_start(in.width, size.width, random);
  return crop_or_pad(in, top, left, size, mode, fill, scratch);
}

struct KeepRatio {
  ImageSize size;
  double longest = 0;
  double scale_prob = 0, aspect_prob = 0;
  std::array<double, 2> scale = {1, 1}, aspect = {1, 1};
  bool is_area = false;
};

KeepRatio keep_ratio_of(const ResizeKeepRatioConfig& config) {
  return {exact_size(config.size),
          config.longest,
          config.random_scale_prob,
          config.random_aspect_prob,
          {config.random_scale_range[0], config.random_scale_range[1]},
          {config.random_aspect_range[0], config.random_aspect_range[1]},
          config.random_scale_area};
}

template <class Config>
KeepRatio random_keep_ratio_of(const Config& config) {
  return {exact_size(config.size),
          0,
          0.5,
          0.5,
          {config.scale[0], config.scale[1]},
          {config.ratio[0], config.ratio[1]},
          true};
}

ImageSize draw_size(const KeepRatio& keep, ImageSize image, RandomStream& random) {
  const double height = static_cast<double>(image.height);
  const double width = static_cast<double>(image.width);
  const double ratio_h = height / static_cast<double>(keep.size.height);
  const double ratio_w = width / static_cast<double>(keep.size.width);
  const double ratio =
      std::max(ratio_h, ratio_w) * keep.longest + std::min(ratio_h, ratio_w) * (1.0 - keep.longest);
  double factor_h = 1, factor_w = 1;
  if (keep.scale_prob > 0 && random.uniform(0.0, 1.0) < keep.scale_prob) {
    const double factor = random.uniform(keep.scale[0], keep.scale[1]);
    factor_h = factor_w = keep.is_area ? 1.0 / std::sqrt(factor) : factor;
  }
  if (keep.aspect_prob > 0 && random.uniform(0.0, 1.0) < keep.aspect_prob) {
    const double aspect =
        std::sqrt(std::exp(random.uniform(std::log(keep.aspect[0]), std::log(keep.aspect[1]))));
    factor_h /= aspect;
    factor_w *= aspect;
  }
  // A long and thin image may round to nothing.
  return {std::max<int64_t>(round_half_even(height * factor_h / ratio), 1),
          std::max<int64_t>(round_half_even(width * factor_w / ratio), 1)};
}

template <class Config>
ImageView resize_randomly(const Config& config, const ImageView& in, RandomStream& random,
                          TransformScratch& scratch) {
  const ImageSize size = draw_size(random_keep_ratio_of(config), in.size(), random);
  return resize_exactly(in, size, draw_interpolation(config.interpolation, random), scratch);
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

ImageSize draw_keep_ratio_size(const ResizeKeepRatioConfig& config, ImageSize image,
                               RandomStream& random) {
  return draw_size(keep_ratio_of(config), image, random);
}

std::optional<ImageSize> output_size(const ResizeKeepRatioConfig& config,
                                     std::optional<ImageSize> in) {
  if (!in || config.random_scale_prob > 0 || config.random_aspect_prob > 0) return std::nullopt;
  RandomStream unused({0, 0}, 0);
  return draw_keep_ratio_size(config, *in, unused);
}

std::optional<ImageSize> output_size(const CenterCropOrPadConfig& config,
                                     std::optional<ImageSize>) {
  return exact_size(config.size);
}

std::optional<ImageSize> output_size(const RandomCropOrPadConfig& config,
                                     std::optional<ImageSize>) {
  return exact_size(config.size);
}

std::optional<ImageSize> output_size(const RkrcConfig& config, std::optional<ImageSize>) {
  return exact_size(config.size);
}

std::optional<ImageSize> output_size(const RkrrConfig& config, std::optional<ImageSize>) {
  return exact_size(config.size);
}

std::optional<ImageSize> output_size(const EvalCropConfig& config, std::optional<ImageSize>) {
  return exact_size(config.size);
}

ImageView apply(const ResizeKeepRatioConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  const ImageSize size = draw_keep_ratio_size(config, in.size(), random);
  return resize_exactly(in, size, draw_interpolation(config.interpolation, random), scratch);
}

ImageView apply(const CenterCropOrPadConfig& config, const ImageView& in, RandomStream&,
                TransformScratch& scratch) {
  return centre(in, exact_size(config.size), pad_mode_from_name(config.mode),
                fill_color(config.fill), scratch);
}

ImageView apply(const RandomCropOrPadConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  return random_crop_or_pad(in, exact_size(config.size), pad_mode_from_name(config.mode),
                            fill_color(config.fill), random, scratch);
}

ImageView apply(const RkrcConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  const ImageView resized = resize_randomly(config, in, random, scratch);
  return centre(resized, exact_size(config.size), PadMode::kReflect, {}, scratch);
}

ImageView apply(const RkrrConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  const ImageView resized = resize_randomly(config, in, random, scratch);
  return random_crop_or_pad(resized, exact_size(config.size), PadMode::kReflect, {}, random,
                            scratch);
}

ImageView apply(const EvalCropConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  const ImageSize size = exact_size(config.size);
  const auto enlarged = [&](int64_t side) {
    return static_cast<int64_t>(std::floor(static_cast<double>(side) / config.crop_pct));
  };
  const ImageSize target = {enlarged(size.height), enlarged(size.width)};
  ImageSize resized = target;
  if (config.crop_mode == "border") {
    resized = draw_size({.size = target, .longest = 1}, in.size(), random);
  } else if (config.crop_mode == "center" && target.height == target.width) {
    resized = shorter_edge_size(target.height, in.size());
  } else if (config.crop_mode == "center") {
    resized = draw_size({.size = target}, in.size(), random);
  }
  const FillColor fill = config.crop_mode == "border" ? fill_color(config.fill) : FillColor{};
  return centre(resize_exactly(in, resized, interpolation_from_name(config.interpolation), scratch),
                size, PadMode::kConstant, fill, scratch);
}

}  // namespace fovea::data
