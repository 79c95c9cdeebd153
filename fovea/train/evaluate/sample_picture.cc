#include "fovea/train/evaluate/sample_picture.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/data/image/png.h"
#include "fovea/data/pictures/preview.h"
#include "fovea/data/transforms/image/resize.h"

namespace fovea::train {
namespace {

data::Image at_most(int64_t side, data::Image image) {
  const auto longer = std::max(image.height, image.width);
  if (longer <= side) return image;
  const auto scaled = [&](int64_t length) {
    return std::max<int64_t>(1, (length * side + longer / 2) / longer);
  };
  data::Image small;
  data::ResizeScratch scratch;
  data::resize(data::ImageView(image), {scaled(image.height), scaled(image.width)},
               data::Interpolation::kBilinear, small, scratch);
  return small;
}

}  // namespace

std::string small_png(data::Image image) {
  const auto png = data::encode_png(at_most(kPictureSide, std::move(image)));
  return {png.begin(), png.end()};
}

std::string sample_picture(const data::Dataset& dataset, int64_t index) {
  data::Sample sample;
  try {
    read_decoded(dataset, index, sample);
  } catch (const DataError& error) {  // it went away since it was evaluated
    log_warning(fmt::format("no picture in the report: {}", error.what()));
    return {};
  }
  return small_png(data::preview_of(sample));
}

}  // namespace fovea::train
