// A large image with the number of channels that a model takes.
#pragma once

#include <memory>

#include "fovea/data/large_image/region_source.h"

namespace fovea::data {

// `image`, which outlives the result, with gray repeated into 3 channels or colours weighted into
// one, as TransformPipeline does it; null where it has as many already. Throws ConfigError for any
// other number, or an image that is not made of bytes.
std::unique_ptr<RegionSource> with_channels(const RegionSource& image, int64_t channels);

}  // namespace fovea::data
