// The middle of the image; where the image is smaller it is first padded with zeros.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

struct CenterCropConfig {
  static constexpr std::string_view kName = "center_crop";
  static constexpr std::string_view kOfVolumes = "center_spatial_crop";
  std::vector<int64_t> size = {224};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
  }
  void validate(ConfigIssues& issues) const { check_size(size, issues); }
  bool draws() const { return false; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  bool join(FirstCrop& crop, RandomStream&) const {
    const PixelBox box = centre_box(crop.resized, exact_size(size));
    const bool has_border = box.top < 0 || box.left < 0;
    if (crop.takes != FirstCrop::Takes::kWindow || has_border) return false;
    crop.window = box;
    crop.takes = FirstCrop::Takes::kFlip;
    return true;
  }
  ImageView apply(const ImageView& in, RandomStream&, TransformScratch& scratch) const {
    return centre(in, exact_size(size), PadMode::kConstant, {}, scratch);
  }
};

}  // namespace fovea::data
