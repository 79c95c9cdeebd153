// torchvision's ColorJitter, in a random order. Each list is [least, largest] factor; one number x
// stands for 1 - x to 1 + x, of hue for -x to x.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct ColorJitterConfig {
  static constexpr std::string_view kName = "color_jitter";
  static constexpr std::string_view kOfVolumes = "rand_scale_intensity";
  std::vector<double> brightness = {0};
  std::vector<double> contrast = {0};
  std::vector<double> saturation = {0};
  std::vector<double> hue = {0};
  double p = 1.0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("brightness", self.brightness, "range of factors, or the distance from 1",
            {.one_is_list = true});
    v.field("contrast", self.contrast, "range of factors, or the distance from 1",
            {.one_is_list = true});
    v.field("saturation", self.saturation, "range of factors, or the distance from 1",
            {.one_is_list = true});
    v.field("hue", self.hue, "range of turns of the colour circle, -0.5 to 0.5, or the distance",
            {.one_is_list = true});
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return p > 0; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

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

}  // namespace fovea::data
