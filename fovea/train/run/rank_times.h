// Where the ranks of a run spend their time, and which one the others wait for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/parallel/communicator.h"

namespace fovea::train {

// Of one rank over some steps, in seconds.
struct RankTimes {
  double seconds = 0;  // in all
  double data = 0;     // waiting for samples
  double comm = 0;     // in collectives

  void add(const RankTimes& other);
};

// Everybody's times, by rank. Collective over `ranks`.
std::vector<RankTimes> gather_times(const RankTimes& own, parallel::Communicator& ranks);

// Note [Stragglers]
// Ranks of one run take equally long for a step, as each step has collectives that none leaves
// before all have come. The rank that comes last stands there the shortest, for the exchange alone;
// what the others stand there longer, they wait for it. So the rank with the least time in
// collectives is the slowest one, and how much longer the others take says what it costs.
struct Straggler {
  double comm_share = 0;    // of the time, in collectives: mean over the ranks
  int64_t rank = 0;         // the slowest one
  double waited_share = 0;  // of the time, that the others wait for it: mean over them
  double data_share = 0;    // of its time, that it waits for samples
};

// Of two ranks or more.
Straggler find_straggler(std::span<const RankTimes> times);

// "12.0 % of the time in communication; the others waited for rank 3, 5.1 % of the time (which
// itself waited 4.0 % for data)".
std::string text_of(const Straggler& straggler);

}  // namespace fovea::train
