#include "fovea/data/order/tile_order.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/order/permutation.h"

namespace fovea::data {
namespace {

int64_t before(const std::vector<int64_t>& ends, int64_t index) {
  return index == 0 ? 0 : ends[static_cast<size_t>(index - 1)];
}

uint64_t window_seed(uint64_t seed, int64_t window) {
  const auto number = static_cast<uint64_t>(window);
  const PhiloxCounter words =
      philox4x32({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 0, 0},
                 philox_key(seed, "tiles"));
  return uint64_t{words[1]} << 32 | words[0];
}

}  // namespace

TileOrder::TileOrder(TileWindows windows, uint64_t seed)
    : windows_(std::move(windows)), seed_(seed) {
  const auto& ends = windows_.ends;
  FOVEA_CHECK(windows_.window > 0 && !ends.empty() && ends.back() > 0,
              "windows of {} of {} volumes", windows_.window, ends.size());
}

int64_t TileOrder::first_tile(int64_t volume) const { return before(windows_.ends, volume); }

TileOrder::Cycle TileOrder::make_cycle(int64_t number) const {
  Cycle cycle;
  const auto count = static_cast<int64_t>(windows_.ends.size());
  const Permutation permutation(count, seed_, number);
  int64_t end = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t volume = permutation(i);
    end += windows_.ends[static_cast<size_t>(volume)] - first_tile(volume);
    cycle.volumes.push_back(volume);
    cycle.ends.push_back(end);
  }
  return cycle;
}

int64_t TileOrder::at(int64_t place, int64_t number) const {
  const auto cycle = cycles_.get(number, [&] { return make_cycle(number); });
  const auto& ends = cycle->ends;
  const auto count = static_cast<int64_t>(ends.size());
  FOVEA_CHECK(place >= 0 && place < ends.back(), "place {} of {} tiles", place, ends.back());
  const auto position_of = [&](int64_t tile) {
    return std::upper_bound(ends.begin(), ends.end(), tile) - ends.begin();
  };
  const int64_t window = position_of(place) / windows_.window;
  const int64_t first = before(ends, window * windows_.window);
  const int64_t last = before(ends, std::min((window + 1) * windows_.window, count));
  const Permutation tiles(last - first, window_seed(seed_, window), number);
  const int64_t chosen = first + tiles(place - first);
  const int64_t position = position_of(chosen);
  return first_tile(cycle->volumes[static_cast<size_t>(position)]) + chosen -
         before(ends, position);
}

}  // namespace fovea::data
