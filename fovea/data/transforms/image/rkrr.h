// timm's train crop mode rkrr: as rkrc, then a crop at a random place.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"
#include "fovea/data/transforms/image/keep_ratio.h"
#include "fovea/data/transforms/image/rkrc.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

struct RkrrConfig {
  static constexpr std::string_view kName = "rkrr";
  std::vector<int64_t> size = {224};
  std::vector<double> scale = {0.8, 1.0};
  std::vector<double> ratio = {0.9, 1.0 / 0.9};
  std::string interpolation = "random";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    RkrcConfig::visit(v, self);
  }
  void validate(ConfigIssues& issues) const {
    check_size(size, issues);
    check_interval("scale", scale, issues);
    check_interval("ratio", ratio, issues);
  }
  bool draws() const { return true; }
  std::optional<ImageSize> output_size(std::optional<ImageSize>) const { return exact_size(size); }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    const ImageView resized = resize_randomly(*this, in, random, scratch);
    return random_crop_or_pad(resized, exact_size(size), PadMode::kReflect, {}, random, scratch);
  }
};

}  // namespace fovea::data
