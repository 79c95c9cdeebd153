// timm's train crop modes rkrc and rkrr: resize_keep_ratio with random scale and stretch, each with
// probability 0.5, then the centre (rkrc) or a crop at a random place (rkrr), mirrored at the
// edges.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"
#include "fovea/data/transforms/image/keep_ratio.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

template <bool kIsRandom>
struct ResizedWindowConfig {
  static constexpr std::string_view kName = kIsRandom ? "rkrr" : "rkrc";
  std::vector<int64_t> size = {224};
  std::vector<double> scale = {0.8, 1.0};
  std::vector<double> ratio = {0.9, 1.0 / 0.9};
  std::string interpolation = "random";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("scale", self.scale, "least and largest share of the area that is kept");
    v.field("ratio", self.ratio, "least and largest stretch");
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic", "random"}});
  }
  void validate(ConfigIssues& issues) const {
    check_size(size, issues);
    check_interval("scale", scale, issues);
    check_interval("ratio", ratio, issues);
  }
  bool draws() const { return true; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    const KeepRatio keep = {.size = exact_size(size),
                            .scale_prob = 0.5,
                            .aspect_prob = 0.5,
                            .scale = {scale[0], scale[1]},
                            .aspect = {ratio[0], ratio[1]},
                            .is_area = true};
    const ImageSize drawn = draw_size(keep, in.size(), random);
    const ImageView resized =
        resize_exactly(in, drawn, draw_interpolation(interpolation, random), scratch);
    if constexpr (kIsRandom) {
      return random_crop_or_pad(resized, keep.size, PadMode::kReflect, {}, random, scratch);
    }
    return centre(resized, keep.size, PadMode::kReflect, {}, scratch);
  }
};

using RkrcConfig = ResizedWindowConfig<false>;
using RkrrConfig = ResizedWindowConfig<true>;

}  // namespace fovea::data
