// A random box (area share in `scale`, aspect ratio in `ratio`), resized: torchvision's and timm's
// crop for training.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct RandomResizedCropConfig {
  static constexpr std::string_view kName = "random_resized_crop";
  std::vector<int64_t> size = {224};
  std::vector<double> scale = {0.08, 1.0};
  std::vector<double> ratio = {3.0 / 4.0, 4.0 / 3.0};
  std::string interpolation = "bicubic";
  bool scaled_decode = true;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("scale", self.scale, "least and largest share of the area that is kept");
    v.field("ratio", self.ratio, "least and largest width / height of the box");
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
    v.field("scaled_decode", self.scaled_decode,
            "let the JPEG decoder shrink by 2, 4 or 8 where the box is at least that much larger "
            "than the output: faster, pixels then differ a little from Pillow's");
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return true; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  std::optional<FirstCrop> first_crop(ImageSize image, RandomStream& random) const;
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

// The box of random_resized_crop for an image of this size: ten tries, then the largest centred box
// within `ratio`.
PixelBox draw_resized_crop(const RandomResizedCropConfig& config, ImageSize image,
                           RandomStream& random);

}  // namespace fovea::data
