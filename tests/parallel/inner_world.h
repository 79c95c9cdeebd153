// Worlds of some ranks of a test's world, one after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/parallel/world.h"

namespace fovea::parallel::testing {

// The world of some ranks of `outer` in a new order, as a start of its own.
inline Launch launch_of(const World& outer, const std::vector<int64_t>& ranks,
                        const std::string& start) {
  auto launch = outer.launch();
  launch.rank = std::find(ranks.begin(), ranks.end(), outer.rank()) - ranks.begin();
  launch.world_size = launch.local_size = static_cast<int64_t>(ranks.size());
  launch.local_rank = launch.rank;
  launch.run_id += "/" + start;
  return launch;
}

// Runs `body` in the ranks that are named, in a world that is made for it and is gone afterwards.
inline void with_ranks(const World& outer, const std::vector<int64_t>& ranks,
                       const std::string& start, const std::function<void(World&)>& body) {
  if (std::find(ranks.begin(), ranks.end(), outer.rank()) == ranks.end()) return;
  World world(launch_of(outer, ranks, start), {.processes = 1, .timeout = 60});
  body(world);
}

// The same in all ranks, once with each of what can carry tensors between them.
inline void with_each_carrier(const World& outer, const std::function<void(World&)>& body) {
  for (const std::string carrier : {kSharedCollectives, kGlooCollectives}) {
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < outer.size(); ++rank) ranks.push_back(rank);
    auto launch = launch_of(outer, ranks, carrier);
    launch.collectives = carrier;
    World world(launch, {.processes = 1, .timeout = 60});
    body(world);
    world.leave();
  }
}

}  // namespace fovea::parallel::testing
