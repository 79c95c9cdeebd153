// timm's CenterCropOrPad: the middle of the image, or all of it with a border.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

struct CenterCropOrPadConfig {
  static constexpr std::string_view kName = "center_crop_or_pad";
  std::vector<int64_t> size = {224};
  std::vector<int64_t> fill = {0};
  std::string mode = "constant";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("fill", self.fill, "value of new pixels, for mode constant; one number, or three",
            {.one_is_list = true});
    v.field("mode", self.mode, "what new pixels hold",
            {.choices = {"constant", "edge", "reflect"}});
  }
  void validate(ConfigIssues& issues) const {
    check_size(size, issues);
    check_fill(fill, issues);
  }
  bool draws() const { return false; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  ImageView apply(const ImageView& in, RandomStream&, TransformScratch& scratch) const {
    return centre(in, exact_size(size), pad_mode_from_name(mode), fill_color(fill), scratch);
  }
};

}  // namespace fovea::data
