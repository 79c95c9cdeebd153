// The order of the tiles of a set of volumes: one that decodes a volume once, and not once a tile.
//
// Note [Windows of tiles]
// In each cycle (an epoch, where each sample comes once an epoch) the volumes are permuted, cut
// into windows of so many volumes one after the other, and the tiles of a window are permuted among
// themselves. So a reader that keeps the volumes of two windows decoded (the one that it is in and,
// with threads that are not equally far, the next) reads each once a cycle, and a batch mixes tiles
// of as many volumes as a window has. It is a function of (seed, cycle, place) alone, and can be
// entered anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/order/last_two.h"
#include "fovea/data/order/tile_windows.h"

namespace fovea::data {

// Thread-safe.
class TileOrder {
 public:
  // windows.window > 0; there is a tile.
  TileOrder(TileWindows windows, uint64_t seed);

  // Which tile stands at `place` of [0, tiles).
  int64_t at(int64_t place, int64_t cycle) const;

 private:
  // The order of the volumes: 16 bytes for each, made when a cycle is first asked for.
  struct Cycle {
    std::vector<int64_t> volumes;
    std::vector<int64_t> ends;  // tiles of volumes[0] to volumes[i]
  };
  Cycle make_cycle(int64_t number) const;
  int64_t first_tile(int64_t volume) const;

  TileWindows windows_;
  uint64_t seed_;
  mutable LastTwo<Cycle> cycles_;
};

}  // namespace fovea::data
