// Which of the hosts that are there work, and how fast they are together.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fovea/elastic/solve/solver.h"

namespace fovea::elastic {

// Devices that work, and how fast.
struct WorkingSet {
  std::vector<size_t> hosts{};     // rising
  std::vector<int64_t> by_kind{};  // devices
  int64_t devices = 0;
  double ms = 0;
  bool is_empty() const { return devices == 0; }
};

struct WorkingSetOptions {
  int64_t alloc_unit = 1;  // of JABAS's choice
  int64_t global_batch = 1;
  int64_t slots = 0;       // of a batch, which are never divided; 0: shares of any size
  double cost_weight = 0;  // as in SolveOptions
  WeightSync sync = WeightSync::kOverlap;
};

// cluster and profiles outlive it.
class WorkingSets {
 public:
  WorkingSets(const Cluster& cluster, const ProfileSet& profiles, const WorkingSetOptions& options);

  void set_price(const std::string& type, double price);
  void set_global_batch(int64_t size);
  int64_t global_batch() const { return options_.global_batch; }
  // Of the hosts for which present[host] is set; empty where there is none.
  WorkingSet ours(const std::vector<bool>& present) const;
  WorkingSet upstream(const std::vector<bool>& present);
  // Equal shares on so many devices; 0: all that are there.
  WorkingSet equal(const std::vector<bool>& present, int64_t devices) const;
  // All that are there, each with a share, of which the longest is the shortest there is.
  WorkingSet all(const std::vector<bool>& present) const;
  // The same devices with a batch of `size` samples: ms of a step in such shares.
  double ms_with_batch(const WorkingSet& set, int64_t size) const;
  // What the devices of a set cost now, in an hour.
  double price_of(const WorkingSet& set) const;
  double cost_weight() const { return options_.cost_weight; }
  const SolveModel& model() const { return model_; }

 private:
  int64_t most_devices(int64_t size) const;
  // The first so many devices of the hosts that are there, without a time.
  WorkingSet first(const std::vector<bool>& present, int64_t devices) const;

  const Cluster& cluster_;
  const ProfileSet& profiles_;
  WorkingSetOptions options_;
  SolveModel model_;
  // By who is there: JABAS's solver looks at times alone, prices do not matter to it.
  std::map<std::vector<bool>, WorkingSet> upstream_;
};

}  // namespace fovea::elastic
