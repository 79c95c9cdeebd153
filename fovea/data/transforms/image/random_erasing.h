// timm's random erasing (Zhong et al. 2017; timm 1.0.31, random_erasing.py) of normalised values;
// stands after normalize.
#pragma once

#include <span>

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct RandomErasingConfig {
  static constexpr std::string_view kName = "random_erasing";
  static constexpr bool kIsOfValues = true;
  double p = 0.25;
  std::string mode = "const";
  std::vector<double> scale = {0.02, 1.0 / 3.0};
  std::vector<double> ratio = {0.3, 1.0 / 0.3};
  int64_t min_count = 1;
  int64_t max_count = 1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
    v.field("mode", self.mode,
            "const: zeros; rand: one normal value a channel; pixel: a normal value each",
            {.choices = {"const", "rand", "pixel"}});
    v.field("scale", self.scale, "least and largest share of the area, over all boxes");
    v.field("ratio", self.ratio, "least and largest height / width of a box");
    v.field("min_count", self.min_count, "least number of boxes", {.min = 1, .max = 100});
    v.field("max_count", self.max_count, "largest number of boxes", {.min = 1, .max = 100});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return p > 0; }
};

// The box of one try for an image of this size; nullopt: ten tries did not fit. share: part of the
// area's range that a box may take, 1 / number of boxes.
std::optional<PixelBox> draw_erasing_box(const RandomErasingConfig& config, ImageSize size,
                                         double share, RandomStream& random);

// image: [C, H, W], changed in place.
void erase_randomly(const RandomErasingConfig& config, ImageSize size, RandomStream& random,
                    std::span<float> image);

}  // namespace fovea::data
