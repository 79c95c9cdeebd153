#include "fovea/data/transforms/image/resize.h"

#include <algorithm>

namespace fovea::data {
namespace {

ImageSize resized_size(const ResizeConfig& config, ImageSize in) {
  if (config.size.size() == 2) return exact_size(config.size);
  return shorter_edge_size(config.size[0], in);
}

}  // namespace

ImageSize shorter_edge_size(int64_t edge, ImageSize in) {
  const int64_t shorter = std::min(in.height, in.width);
  const int64_t longer = std::max(in.height, in.width);
  const auto scaled =
      static_cast<int64_t>(static_cast<double>(edge * longer) / static_cast<double>(shorter));
  return in.height <= in.width ? ImageSize{edge, scaled} : ImageSize{scaled, edge};
}

ImageView resize_exactly(const ImageView& in, ImageSize size, Interpolation interpolation,
                         TransformScratch& scratch) {
  if (size == in.size()) return in;
  Image& out = scratch.next_image();
  resize(in, size, interpolation, out, scratch.resize);
  scratch.geometry.append_resize(0, 0, in.size(), size);
  return ImageView(out);
}

std::optional<ImageSize> ResizeConfig::output_size(std::optional<ImageSize> in) const {
  if (size.size() == 2) return exact_size(size);
  if (!in) return std::nullopt;
  return resized_size(*this, *in);
}

std::optional<FirstCrop> ResizeConfig::first_crop(ImageSize image, RandomStream&) const {
  if (interpolation == "nearest") return std::nullopt;
  FirstCrop crop;
  crop.box.size = image;
  crop.resized = resized_size(*this, image);
  crop.window.size = crop.resized;
  crop.interpolation = interpolation_from_name(interpolation);
  crop.takes = FirstCrop::Takes::kWindow;
  return crop;
}

ImageView ResizeConfig::apply(const ImageView& in, RandomStream&, TransformScratch& scratch) const {
  return resize_exactly(in, resized_size(*this, in.size()), interpolation_from_name(interpolation),
                        scratch);
}

}  // namespace fovea::data
