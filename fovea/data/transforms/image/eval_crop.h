// timm's crop for evaluation: resized to size / crop_pct, then the centre of the size.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct EvalCropConfig {
  static constexpr std::string_view kName = "eval_crop";
  std::vector<int64_t> size = {224};
  double crop_pct = 0.875;
  std::string crop_mode = "center";
  std::vector<int64_t> fill = {124, 116, 104};
  std::string interpolation = "bicubic";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("crop_pct", self.crop_pct, "share of the resized side that is kept",
            {.min = 0, .max = 1, .exclusive_min = true});
    v.field("crop_mode", self.crop_mode,
            "center: the shorter side is fitted; squash: both are; border: the longer one is, with "
            "borders of `fill`",
            {.choices = {"center", "squash", "border"}});
    v.field("fill", self.fill,
            "value of border pixels; one number, or three; by default ImageNet's mean",
            {.one_is_list = true});
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return false; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

}  // namespace fovea::data
