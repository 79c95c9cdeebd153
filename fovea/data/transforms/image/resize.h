// One number: the shorter edge gets this length and the aspect ratio is kept. Two: exactly this
// size.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct ResizeConfig {
  static constexpr std::string_view kName = "resize";
  static constexpr std::string_view kOfVolumes = "spatial_resize";
  std::vector<int64_t> size = {256};
  std::string interpolation = "bicubic";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "length of the shorter edge, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
  }
  void validate(ConfigIssues& issues) const { check_size(size, issues); }
  bool draws() const { return false; }
  std::optional<ImageSize> output_size(std::optional<ImageSize> in) const;
  std::optional<FirstCrop> first_crop(ImageSize image, RandomStream& random) const;
  ImageView apply(const ImageView& in, RandomStream&, TransformScratch& scratch) const;
};

// Size of an image whose shorter edge becomes `edge`, as torchvision's Resize rounds it.
ImageSize shorter_edge_size(int64_t edge, ImageSize in);

// `in` with exactly this size.
ImageView resize_exactly(const ImageView& in, ImageSize size, Interpolation interpolation,
                         TransformScratch& scratch);

}  // namespace fovea::data
