// For the simulation: which of the hosts that are there work.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fovea/elastic/solve/simulation.h"
#include "fovea/elastic/solve/solver.h"

namespace fovea::elastic {

class WorkingSets {
 public:
  WorkingSets(const Cluster& cluster, const ProfileSet& profiles, int64_t alloc_unit,
              int64_t global_batch, const SimulateOptions& options);

  void set_price(const std::string& type, double price);
  // Of the hosts for which present[host] is set; empty where there is none.
  WorkingSet ours(const std::vector<bool>& present) const;
  WorkingSet upstream(const std::vector<bool>& present);
  // Equal shares on so many devices; 0: all that are there.
  WorkingSet equal(const std::vector<bool>& present, int64_t devices) const;
  // What the devices of a set cost now, in an hour.
  double price_of(const WorkingSet& set) const;

 private:
  const Cluster& cluster_;
  const ProfileSet& profiles_;
  int64_t alloc_unit_, global_batch_;
  SimulateOptions options_;
  SolveModel model_;
  // By who is there: JABAS's solver looks at times alone, prices do not matter to it.
  std::map<std::vector<bool>, WorkingSet> upstream_;
};

}  // namespace fovea::elastic
