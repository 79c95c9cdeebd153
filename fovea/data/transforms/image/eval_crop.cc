#include "fovea/data/transforms/image/eval_crop.h"

#include <cmath>

#include "fovea/data/transforms/image/keep_ratio.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

void EvalCropConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_fill(fill, issues);
}

ImageView EvalCropConfig::apply(const ImageView& in, RandomStream& random,
                                TransformScratch& scratch) const {
  const ImageSize window = exact_size(size);
  const auto enlarged = [&](int64_t side) {
    return static_cast<int64_t>(std::floor(static_cast<double>(side) / crop_pct));
  };
  const ImageSize target = {enlarged(window.height), enlarged(window.width)};
  ImageSize resized = target;
  if (crop_mode == "border") {
    resized = draw_size({.size = target, .longest = 1}, in.size(), random);
  } else if (crop_mode == "center" && target.height == target.width) {
    resized = shorter_edge_size(target.height, in.size());
  } else if (crop_mode == "center") {
    resized = draw_size({.size = target}, in.size(), random);
  }
  const FillColor border = crop_mode == "border" ? fill_color(fill) : FillColor{};
  return centre(resize_exactly(in, resized, interpolation_from_name(interpolation), scratch),
                window, PadMode::kConstant, border, scratch);
}

}  // namespace fovea::data
