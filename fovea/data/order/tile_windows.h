// How the tiles of a data set are shuffled; see TileOrder.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea::data {

struct TileWindows {
  std::vector<int64_t> ends = {};  // [volumes] tiles of volumes 0 to i
  int64_t window = 0;              // volumes whose tiles come mixed; 0: all of the set
};

}  // namespace fovea::data
