// For the solver: the best choice among devices that talk to each other in one way, within a host
// or between hosts.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/elastic/solve/count_solver.h"
#include "fovea/elastic/solve/solver.h"

namespace fovea::elastic {

class SetSearch {
 public:
  // counts: devices of each kind. `best` is what was found so far, and gets what is better.
  SetSearch(const SolveModel& model, std::vector<int64_t> counts, bool between_nodes,
            const SolveOptions& options, CountSolution& best);
  // Of so many devices, both included.
  void run(int64_t fewest, int64_t most);

 private:
  const NetworkTime& network(size_t kind, int64_t devices);
  std::vector<KindOffer> offers(double ms, int64_t devices);
  std::vector<KindOffer> all_offers() const;  // whatever they hold
  bool holds(double ms, int64_t devices);
  // Whether some number of devices from `fewest` to `most` might hold the batch within ms.
  bool may_hold(double ms, int64_t fewest, int64_t most);
  double snapped(double ms, int64_t devices);  // the last time of a share up to ms
  double next(double ms, int64_t devices);     // the first time of a share above ms
  // The least ms of exactly so many devices; infinity: it is not below `cap`, nor equal.
  double least_ms(int64_t devices, double cap);

  void search_time(int64_t fewest, int64_t most);
  void search_price(double ms, int64_t fewest, int64_t most);
  void search_objective(int64_t fewest, int64_t most);
  void search_intervals(int64_t devices, double low, double high);
  double ms_that_gains(int64_t fewest) const;
  bool is_better(double objective, double price) const;
  void take(double ms, int64_t devices, const std::vector<int64_t>& choice);

  const SolveModel& model_;
  std::vector<int64_t> counts_;
  bool between_nodes_;
  SolveOptions options_;
  CountSolution& best_;
  double best_ms_;                                  // of the search by time alone
  std::vector<std::vector<NetworkTime>> networks_;  // by kind and devices; negative: not made yet
};

}  // namespace fovea::elastic
