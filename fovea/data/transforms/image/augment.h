// The transforms of augmentation that keep an image's size: what each config does to pixels. Pure
// functions of the image and the random stream.
#pragma once

#include <optional>
#include <span>

#include "fovea/core/philox.h"
#include "fovea/data/transforms/image/augment_configs.h"
#include "fovea/data/transforms/image/geometry.h"

namespace fovea::data {

// The factors of one image and the order in which they are applied.
struct JitterDraw {
  // 0 brightness, 1 contrast, 2 saturation, 3 hue.
  std::array<int, 4> order = {0, 1, 2, 3};
  std::array<std::optional<double>, 4> factors;  // none: left out
};

// Torchvision's ColorJitter.get_params.
JitterDraw draw_color_jitter(const ColorJitterConfig& config, RandomStream& random);
ImageView apply_color_jitter(const JitterDraw& draw, const ImageView& in,
                             TransformScratch& scratch);

// The results look at `in`'s pixels or at a buffer of `scratch`.
ImageView apply(const ColorJitterConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const GrayscaleConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const GaussianBlurConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const SolarizeConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const PosterizeConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const AutoAugmentConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);
ImageView apply(const RandAugmentConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch);

template <class Config>
concept KeepsSize = std::is_same_v<Config, ColorJitterConfig> ||
    std::is_same_v<Config, GrayscaleConfig> || std::is_same_v<Config, GaussianBlurConfig> ||
    std::is_same_v<Config, SolarizeConfig> || std::is_same_v<Config, PosterizeConfig> ||
    std::is_same_v<Config, AutoAugmentConfig> || std::is_same_v<Config, RandAugmentConfig>;

template <KeepsSize Config>
std::optional<ImageSize> output_size(const Config&, std::optional<ImageSize> in) {
  return in;
}

}  // namespace fovea::data
