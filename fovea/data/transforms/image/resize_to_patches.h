// For models with patching: packed, which take images of any size in whole patches (Dehghani et al.
// 2023, NaViT): the image keeps its aspect ratio, but for the rounding to whole patches.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct ResizeToPatchesConfig {
  static constexpr std::string_view kName = "resize_to_patches";
  int64_t patch_size = 16;
  int64_t max_patches = 256;
  std::optional<int64_t> min_patches = {};
  bool enlarge = false;
  std::string interpolation = "bicubic";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("patch_size", self.patch_size, "side of a patch, the model's",
            {.min = 1, .max = 1024, .unit = "pixels"});
    v.field("max_patches", self.max_patches, "an image that has more is shrunk to at most so many",
            {.min = 1, .unit = "patches"});
    v.field("min_patches", self.min_patches,
            "the limit is drawn for each image, from min_patches to max_patches; none: it is "
            "max_patches",
            {.min = 1, .unit = "patches", .null_word = "none"});
    v.field("enlarge", self.enlarge,
            "images with fewer patches than the limit are enlarged to it; false: they keep their "
            "size");
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return min_patches && *min_patches < max_patches; }
  std::optional<ImageSize> output_size(std::optional<ImageSize> in) const;
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

// Rows and columns of patches of an image of this size, together at most `limit`: the grid whose
// aspect ratio is near that of the image, at most as large as it but for rounding, or, with
// config.enlarge, as large as the limit allows. At least one patch.
ImageSize patch_grid(const ResizeToPatchesConfig& config, ImageSize image, int64_t limit);

}  // namespace fovea::data
