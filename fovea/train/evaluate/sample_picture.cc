#include "fovea/train/evaluate/sample_picture.h"

#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/data/image/png.h"
#include "fovea/data/pictures/pictures.h"
#include "fovea/data/pictures/preview.h"

namespace fovea::train {

std::string small_png(data::Image image) {
  const auto png = data::encode_png(data::at_most(std::move(image), kPictureSide));
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
