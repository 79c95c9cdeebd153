// timm's RandomCropOrPad: the same at a random place.
#pragma once

#include "fovea/data/transforms/image/center_crop_or_pad.h"
#include "fovea/data/transforms/image/image_transform.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

struct RandomCropOrPadConfig {
  static constexpr std::string_view kName = "random_crop_or_pad";
  std::vector<int64_t> size = {224};
  std::vector<int64_t> fill = {0};
  std::string mode = "constant";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    CenterCropOrPadConfig::visit(v, self);
  }
  void validate(ConfigIssues& issues) const {
    check_size(size, issues);
    check_fill(fill, issues);
  }
  bool draws() const { return true; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    return random_crop_or_pad(in, exact_size(size), pad_mode_from_name(mode), fill_color(fill),
                              random, scratch);
  }
};

}  // namespace fovea::data
