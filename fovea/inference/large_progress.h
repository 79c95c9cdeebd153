// How far a prediction over a large image is.
#pragma once

#include <cstdint>
#include <functional>

namespace fovea::inference {

// Told of what is done and what there is to do, in windows or in rows.
using LargeProgress = std::function<void(int64_t done, int64_t total)>;

}  // namespace fovea::inference
