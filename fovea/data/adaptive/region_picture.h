// Pictures of trees over images that are too large for memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/data/adaptive/tree.h"
#include "fovea/data/dataset.h"
#include "fovea/data/large_image/region_source.h"

namespace fovea::data {

// The image shrunk to a longest side of at most `side` by averaging (as it is where it is smaller),
// with the leaves of each tree: one picture a tree, in RGB. Images that are not bytes are drawn
// from black to white over the range of the averages; of other than 3 channels the first is drawn.
// Reads the image once. Throws DataError where it cannot be read.
std::vector<Image> draw_large_trees(const RegionSource& image, std::span<const PatchTree> trees,
                                    int64_t side, int64_t band_bytes);

}  // namespace fovea::data
