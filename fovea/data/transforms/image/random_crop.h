// Padding, then a window of fixed size at a random place.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct RandomCropConfig {
  static constexpr std::string_view kName = "random_crop";
  static constexpr std::string_view kOfVolumes = "rand_spatial_crop";
  std::vector<int64_t> size = {32};
  std::vector<int64_t> padding = {0};
  int64_t fill = 0;
  std::string mode = "constant";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field(
        "padding", self.padding,
        "pixels added before, as for pad: one number, [left and right, top and bottom], or four",
        {.unit = "pixels", .one_is_list = true});
    v.field("fill", self.fill, "value of the new pixels, for mode constant",
            {.min = 0, .max = 255});
    v.field("mode", self.mode, "what the new pixels hold",
            {.choices = {"constant", "edge", "reflect"}});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return true; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

}  // namespace fovea::data
