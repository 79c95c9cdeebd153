// timm's CenterCropOrPad, the middle of the image, or all of it with a border; and RandomCropOrPad,
// the same at a random place.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

template <bool kIsRandom>
struct CropOrPadConfig {
  static constexpr std::string_view kName = kIsRandom ? "random_crop_or_pad" : "center_crop_or_pad";
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
  bool draws() const { return kIsRandom; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    const PadMode pad = pad_mode_from_name(mode);
    if constexpr (kIsRandom) {
      return random_crop_or_pad(in, exact_size(size), pad, fill_color(fill), random, scratch);
    }
    return centre(in, exact_size(size), pad, fill_color(fill), scratch);
  }
};

using CenterCropOrPadConfig = CropOrPadConfig<false>;
using RandomCropOrPadConfig = CropOrPadConfig<true>;

}  // namespace fovea::data
