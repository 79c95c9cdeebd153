#include "fovea/train/evaluate/mask_picture.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/pictures/pictures.h"

namespace fovea::train {
namespace {

data::VolumeSize size_of_sides(at::IntArrayRef sides) {
  FOVEA_CHECK(sides.size() == 2 || sides.size() == 3, "{} sides; expected 2 or 3", sides.size());
  const auto last = sides.size();
  return {last == 3 ? sides[0] : 1, sides[last - 2], sides[last - 1]};
}

// Of a volume the slice in the middle of its shortest axis, which is the largest there is.
// x: [sides] -> [H, W]
at::Tensor middle_of(const at::Tensor& x) {
  if (x.dim() == 2) return x;
  const auto sides = x.sizes();
  const auto axis = std::min_element(sides.begin(), sides.end()) - sides.begin();
  return x.select(axis, sides[static_cast<size_t>(axis)] / 2);
}

}  // namespace

data::LabelMap to_label_map(const at::Tensor& classes) {
  const auto flat = classes.to(at::kCPU, at::kInt).contiguous();
  const auto* first = flat.const_data_ptr<int32_t>();
  return {size_of_sides(classes.sizes()), {first, first + flat.numel()}};
}

data::Image mask_picture(const at::Tensor& image, const at::Tensor& labels,
                         const at::Tensor& predicted, int64_t side) {
  const auto pixels = middle_of(image[0]).to(at::kCPU, at::kFloat).contiguous();  // [H, W]
  data::Volume slice;
  slice.channels = 1;
  slice.size = size_of_sides(pixels.sizes());
  slice.values.assign(pixels.const_data_ptr<float>(),
                      pixels.const_data_ptr<float>() + pixels.numel());
  std::vector<data::Image> pictures;
  for (const auto& classes :
       {data::LabelMap{}, to_label_map(middle_of(labels)), to_label_map(middle_of(predicted))}) {
    pictures.push_back(data::fit(tinted(slice, classes), side));
  }
  return data::contact_sheet(pictures, {.columns = 3});
}

data::Image tinted(const data::Image& image, const data::LabelMap& classes) {
  auto rgb = data::to_rgb(data::ImageView(image));
  data::tint(classes, rgb);
  return rgb;
}

data::Image tinted(const data::Volume& volume, const data::LabelMap& classes) {
  const auto pixels = static_cast<size_t>(volume.size.voxels());
  const auto window = data::gray_window({volume.values.data(), pixels});
  const data::SlicePlane middle{.axis = 0, .place = volume.size.depth / 2};
  return data::slice_picture(volume, 0, classes, middle, window);
}

}  // namespace fovea::train
