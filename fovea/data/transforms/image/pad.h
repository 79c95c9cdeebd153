// The transform pad.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct PadConfig {
  static constexpr std::string_view kName = "pad";
  static constexpr std::string_view kOfVolumes = "spatial_pad";
  std::vector<int64_t> padding = {4};
  int64_t fill = 0;
  std::string mode = "constant";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("padding", self.padding,
            "pixels added on every side, or [left and right, top and bottom], or [left, top, "
            "right, bottom]",
            {.unit = "pixels", .one_is_list = true});
    v.field("fill", self.fill, "value of the new pixels, for mode constant",
            {.min = 0, .max = 255});
    v.field("mode", self.mode, "what the new pixels hold",
            {.choices = {"constant", "edge", "reflect"}});
  }
  void validate(ConfigIssues& issues) const { check_padding(padding, issues); }
  bool draws() const { return false; }
  std::optional<ImageSize> output_size(std::optional<ImageSize> in) const;
  ImageView apply(const ImageView& in, RandomStream&, TransformScratch& scratch) const;
};

// Pixels added on each side.
struct Margins {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
  bool is_zero() const { return left == 0 && top == 0 && right == 0 && bottom == 0; }
};

// One number, [left and right, top and bottom], or [left, top, right, bottom].
Margins margins_from(const std::vector<int64_t>& padding);
ImageSize padded_size(ImageSize in, const Margins& margins);
// Throws DataError where `reflect` needs more pixels than the image has.
ImageView pad(const ImageView& in, const Margins& margins, const std::string& mode, int64_t fill,
              TransformScratch& scratch);

}  // namespace fovea::data
