#include "fovea/data/transforms/image/random_crop.h"

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/pad.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {

void RandomCropConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_padding(padding, issues);
}

ImageView RandomCropConfig::apply(const ImageView& in, RandomStream& random,
                                  TransformScratch& scratch) const {
  const ImageView padded = pad(in, margins_from(padding), mode, fill, scratch);
  const ImageSize window = exact_size(size);
  if (padded.height < window.height || padded.width < window.width) {
    fail<DataError>(
        "an image of {}x{} pixels, {}x{} with padding, is smaller than random_crop's {}x{}; pad "
        "more, resize before or crop less",
        in.height, in.width, padded.height, padded.width, window.height, window.width);
  }
  const int64_t top = random.below(static_cast<uint32_t>(padded.height - window.height + 1));
  const int64_t left = random.below(static_cast<uint32_t>(padded.width - window.width + 1));
  return crop(padded, top, left, window, scratch);
}

}  // namespace fovea::data
