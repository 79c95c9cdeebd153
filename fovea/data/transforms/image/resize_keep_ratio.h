// timm's ResizeKeepRatio: the image fits around the size (longest: 0) or into it (longest: 1); by
// chance larger, smaller or stretched.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct ResizeKeepRatioConfig {
  static constexpr std::string_view kName = "resize_keep_ratio";
  std::vector<int64_t> size = {224};
  double longest = 0;
  std::string interpolation = "bilinear";
  double random_scale_prob = 0;
  std::vector<double> random_scale_range = {0.85, 1.05};
  bool random_scale_area = false;
  double random_aspect_prob = 0;
  std::vector<double> random_aspect_range = {0.9, 1.11};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "side, or [height, width], that the image is fitted to",
            {.unit = "pixels", .one_is_list = true});
    v.field("longest", self.longest, "0: the shorter side fits; 1: the longer one; or in between",
            {.min = 0, .max = 1});
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic", "random"}});
    v.field("random_scale_prob", self.random_scale_prob, "probability of a random scale",
            {.min = 0, .max = 1});
    v.field("random_scale_range", self.random_scale_range, "least and largest scale");
    v.field("random_scale_area", self.random_scale_area,
            "the scale is the share of the area that a crop keeps, as for random_resized_crop");
    v.field("random_aspect_prob", self.random_aspect_prob, "probability of a random stretch",
            {.min = 0, .max = 1});
    v.field("random_aspect_range", self.random_aspect_range, "least and largest stretch");
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const {
    return interpolation == "random" || random_scale_prob > 0 || random_aspect_prob > 0;
  }
  std::optional<ImageSize> output_size(std::optional<ImageSize> in) const;
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

// The size that timm's ResizeKeepRatio.get_params gives, with its draws.
ImageSize draw_keep_ratio_size(const ResizeKeepRatioConfig& config, ImageSize image,
                               RandomStream& random);

}  // namespace fovea::data
