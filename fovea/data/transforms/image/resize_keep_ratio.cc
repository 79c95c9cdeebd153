#include "fovea/data/transforms/image/resize_keep_ratio.h"

#include "fovea/data/transforms/image/keep_ratio.h"

namespace fovea::data {
namespace {

KeepRatio keep_ratio_of(const ResizeKeepRatioConfig& config) {
  return {exact_size(config.size),
          config.longest,
          config.random_scale_prob,
          config.random_aspect_prob,
          {config.random_scale_range[0], config.random_scale_range[1]},
          {config.random_aspect_range[0], config.random_aspect_range[1]},
          config.random_scale_area};
}

}  // namespace

ImageSize draw_keep_ratio_size(const ResizeKeepRatioConfig& config, ImageSize image,
                               RandomStream& random) {
  return draw_size(keep_ratio_of(config), image, random);
}

void ResizeKeepRatioConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_interval("random_scale_range", random_scale_range, issues);
  check_interval("random_aspect_range", random_aspect_range, issues);
}

std::optional<ImageSize> ResizeKeepRatioConfig::output_size(std::optional<ImageSize> in) const {
  if (!in || random_scale_prob > 0 || random_aspect_prob > 0) return std::nullopt;
  RandomStream unused({0, 0}, 0);
  return draw_keep_ratio_size(*this, *in, unused);
}

ImageView ResizeKeepRatioConfig::apply(const ImageView& in, RandomStream& random,
                                       TransformScratch& scratch) const {
  const ImageSize resized = draw_keep_ratio_size(*this, in.size(), random);
  return resize_exactly(in, resized, draw_interpolation(interpolation, random), scratch);
}

}  // namespace fovea::data
