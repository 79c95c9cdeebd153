// Which devices take how many samples of a global batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/elastic/solve/solve_config.h"
#include "fovea/elastic/solve/step_model.h"

namespace fovea::elastic {

struct SolveOptions {
  int64_t global_batch = 0;
  // The step's ms times the price of its devices to this power: 0 is time, 1 what a step costs.
  double cost_weight = 0;
};

// Devices that are alike: of one kind, with one bandwidth and price.
struct DeviceKind {
  std::string type;
  HostConfig host;   // bandwidths
  double price = 0;  // of a device and hour
  std::shared_ptr<const DeviceModel> model;
  const DeviceProfile* profile = nullptr;
};

// How many there are: in all, and on the host that has the most.
struct KindCount {
  int64_t devices = 0;
  int64_t largest_host = 0;
};

// Of each kind: so many devices, each with at most so many samples.
struct KindShare {
  int64_t devices = 0;
  int64_t most_samples = 0;
};

// A choice that makes the objective least; of equal ones the one that costs least.
struct CountSolution {
  bool is_found = false;
  double ms = 0;     // no device takes longer
  double price = 0;  // of an hour
  double objective = 0;
  bool between_nodes = false;
  int64_t devices = 0;
  std::vector<KindShare> kinds{};
};

// What is known of a cluster and a model. The profiles must outlive it.
class SolveModel {
 public:
  SolveModel(const Cluster& cluster, const ProfileSet& profiles, WeightSync sync);

  const std::vector<DeviceKind>& kinds() const { return kinds_; }
  const NetworkModel& network() const { return network_; }
  WeightSync sync() const { return sync_; }
  // Of every kind of this type.
  void set_price(const std::string& type, double price);
  // Of a host of the cluster, by its place there.
  size_t kind_of(size_t host) const { return kind_of_host_[host]; }

 private:
  WeightSync sync_;
  NetworkModel network_;
  std::vector<DeviceKind> kinds_;
  std::vector<size_t> kind_of_host_;
};

// Note [Exact solution]
// A kind's capacity within T ms is a whole number, found without trying each. For N devices that
// talk to each other in a given way, a batch fits within T where the N devices with the largest
// capacities hold it; the least such T is one of the times that a share takes, and is found by
// bisection that ends between two neighbours of these. With a price in the objective T may be
// longer: intervals of T are halved as long as a bound (the best price of fractions of devices)
// does not rule them out, and where no time lies between their ends the cheapest whole numbers of
// devices are found by branch and bound. Numbers of devices are halved in the same way: more
// devices talk longer, so that the capacities with few of them bound those with more.
// Nothing is rounded and nothing is sampled: the result is that of trying everything.
//
// counts: of each kind. Time grows with kinds and with the logarithm of the batch.
CountSolution solve_counts(const SolveModel& model, const std::vector<KindCount>& counts,
                           const SolveOptions& options);

// What a device does.
struct Assignment {
  std::string name;  // "node0:2", a host and a device of it
  std::string host;
  int64_t local_batch = 0;  // samples of a step
  Passes passes{};
  StepParts parts{};
};

struct Solution {
  double iteration_ms = 0;
  StepParts parts{};  // of the slowest device
  double images_per_second = 0;
  double cost_per_hour = 0;
  WeightSync weight_sync = WeightSync::kOverlap;
  std::vector<Assignment> devices{};  // those that take part
  int64_t left_out = 0;               // devices that do not
};

// Throws ConfigError where the batch is smaller than 1.
Solution solve(const Cluster& cluster, const SolveModel& model, const SolveOptions& options);

// So many devices of some hosts, which have as many: whole hosts first, the largest, and all on one
// host where one has room for them.
struct HostUse {
  size_t host = 0;
  int64_t devices = 0;
};
std::vector<HostUse> choose_hosts(const Cluster& cluster, std::vector<size_t> hosts,
                                  int64_t devices);

// Shares of the batch for so many devices of each kind, in the order of kinds: in proportion to
// what each may have, at least 1 each.
std::vector<int64_t> shares_of(const std::vector<KindShare>& kinds, int64_t global_batch);

// The sums and the rest of a solution, from devices with their parts. prices: of each device.
void complete(Solution& solution, int64_t global_batch, double cost_per_hour);

}  // namespace fovea::elastic
