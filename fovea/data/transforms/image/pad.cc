#include "fovea/data/transforms/image/pad.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

Margins margins_from(const std::vector<int64_t>& padding) {
  if (padding.size() == 4) return {padding[0], padding[1], padding[2], padding[3]};
  return {padding.front(), padding.back(), padding.front(), padding.back()};
}

ImageSize padded_size(ImageSize in, const Margins& margins) {
  return {in.height + margins.top + margins.bottom, in.width + margins.left + margins.right};
}

ImageView pad(const ImageView& in, const Margins& margins, const std::string& mode, int64_t fill,
              TransformScratch& scratch) {
  if (margins.is_zero()) return in;
  const bool is_reflected = mode == "reflect";
  if (is_reflected && (std::max(margins.left, margins.right) >= in.width ||
                       std::max(margins.top, margins.bottom) >= in.height)) {
    fail<DataError>(
        "an image of {}x{} pixels is too small for padding of [{}, {}, {}, {}] by reflection; pad "
        "less or "
        "use mode: edge",
        in.height, in.width, margins.left, margins.top, margins.right, margins.bottom);
  }
  const auto value = static_cast<uint8_t>(fill);
  return crop_or_pad(in, -margins.top, -margins.left, padded_size(in.size(), margins),
                     pad_mode_from_name(mode), {value, value, value}, scratch);
}

std::optional<ImageSize> PadConfig::output_size(std::optional<ImageSize> in) const {
  if (!in) return std::nullopt;
  return padded_size(*in, margins_from(padding));
}

ImageView PadConfig::apply(const ImageView& in, RandomStream&, TransformScratch& scratch) const {
  return pad(in, margins_from(padding), mode, fill, scratch);
}

}  // namespace fovea::data
