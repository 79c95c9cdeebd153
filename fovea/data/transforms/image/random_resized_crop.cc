#include "fovea/data/transforms/image/random_resized_crop.h"

#include <algorithm>
#include <cmath>

namespace fovea::data {
namespace {

constexpr int kCropTries = 10;

}  // namespace

PixelBox draw_resized_crop(const RandomResizedCropConfig& config, ImageSize image,
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

void RandomResizedCropConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_interval("scale", scale, issues);
  check_interval("ratio", ratio, issues);
}

std::optional<FirstCrop> RandomResizedCropConfig::first_crop(ImageSize image,
                                                             RandomStream& random) const {
  if (interpolation == "nearest") return std::nullopt;
  FirstCrop crop;
  crop.box = draw_resized_crop(*this, image, random);
  crop.resized = exact_size(size);
  crop.window.size = crop.resized;
  crop.interpolation = interpolation_from_name(interpolation);
  crop.may_scale = scaled_decode;
  return crop;
}

ImageView RandomResizedCropConfig::apply(const ImageView& in, RandomStream& random,
                                         TransformScratch& scratch) const {
  const PixelBox box = draw_resized_crop(*this, in.size(), random);
  Image& out = scratch.next_image();
  resize(in.crop(box.top, box.left, box.size), exact_size(size),
         interpolation_from_name(interpolation), out, scratch.resize);
  scratch.geometry.append_resize(static_cast<double>(box.left), static_cast<double>(box.top),
                                 box.size, {out.height, out.width});
  return ImageView(out);
}

}  // namespace fovea::data
