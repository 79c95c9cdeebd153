#include "fovea/elastic/solve/upstream_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/elastic/solve/unit_search.h"
#include "fovea/elastic/solve/upstream_model.h"

namespace fovea::elastic {
namespace {

constexpr double kNoStep = std::numeric_limits<double>::infinity();

// Units that are alike: of one kind of device, with one bandwidth.
struct UnitKind {
  const DeviceProfile* profile = nullptr;
  HostConfig host;
  std::vector<size_t> hosts;  // of each unit, host by host
  int64_t largest_host = 0;   // units
};

std::vector<UnitKind> unit_kinds(const Cluster& cluster, const ProfileSet& profiles, int64_t unit) {
  using Key = std::tuple<const DeviceProfile*, double, double>;
  std::map<Key, size_t> known;
  std::vector<UnitKind> kinds;
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    const auto& host = cluster.hosts[i];
    const auto units = host.config.number / unit;
    const auto* profile = profiles.find(host.name, host.config.type);
    if (units < 1 || profile == nullptr) continue;
    const Key key{profile, host.config.intra_network_bandwidth,
                  host.config.inter_network_bandwidth};
    const auto [place, is_new] = known.emplace(key, kinds.size());
    if (is_new) {
      kinds.push_back({.profile = profile, .host = host.config, .hosts = {}, .largest_host = 0});
    }
    auto& kind = kinds[place->second];
    kind.largest_host = std::max(kind.largest_host, units);
    kind.hosts.insert(kind.hosts.end(), static_cast<size_t>(units), i);
  }
  return kinds;
}

struct Best {
  double ms = kNoStep;
  int64_t local_batch = 0;
  bool between_nodes = false;
  int64_t devices = 0;
  UnitChoice choice;
  std::vector<UnitWays> ways;
};

class UpstreamSearch {
 public:
  UpstreamSearch(std::vector<UnitKind> kinds, const NetworkModel& network, WeightSync sync,
                 int64_t unit, int64_t global_batch)
      : kinds_(std::move(kinds)),
        network_(network),
        sync_(sync),
        unit_(unit),
        global_batch_(global_batch) {}

  Best run() {
    std::set<int64_t> batches;
    for (const auto& kind : kinds_) {
      for (const auto& point : kind.profile->computation) batches.insert(point.local_batch);
    }
    for (const auto batch : batches) {
      if (global_batch_ % (batch * unit_) == 0) of_batch(batch);
    }
    return std::move(best_);
  }

 private:
  void of_batch(int64_t batch) {
    std::vector<std::optional<UpstreamModel>> models;
    std::vector<int64_t> all;
    int64_t total = 0, largest = 0;
    for (const auto& kind : kinds_) {
      models.push_back(UpstreamModel::of(*kind.profile, batch, sync_, network_.last_share()));
      const auto units = models.back() ? static_cast<int64_t>(kind.hosts.size()) : 0;
      all.push_back(units);
      total += units;
      if (units > 0) largest = std::max(largest, kind.largest_host);
    }
    const auto workers = global_batch_ / batch / unit_;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      std::vector<int64_t> of_host(kinds_.size(), 0);
      of_host[kind] = models[kind] ? kinds_[kind].largest_host : 0;
      for (int64_t units = 1; units <= std::min(of_host[kind], workers); ++units) {
        of_units(batch, models, of_host, units, workers, false);
      }
    }
    if (total == largest) return;
    for (int64_t units = 2; units <= std::min(total, workers); ++units) {
      of_units(batch, models, all, units, workers, true);
    }
  }

  void of_units(int64_t batch, const std::vector<std::optional<UpstreamModel>>& models,
                const std::vector<int64_t>& limits, int64_t units, int64_t workers,
                bool between_nodes) {
    std::vector<UnitWays> ways(kinds_.size());
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      if (limits[kind] < 1) continue;
      const auto time = network_.upstream_time(kinds_[kind].host, units * unit_, between_nodes);
      ways[kind] = ways_of(*models[kind], time, workers - units + 1);
    }
    auto choice = UnitSearch(ways, limits, units, workers).run(best_.ms);
    if (!(choice.ms < best_.ms) || (between_nodes && !spans_hosts(choice))) return;
    best_ = {.ms = choice.ms,
             .local_batch = batch,
             .between_nodes = between_nodes,
             .devices = units * unit_,
             .choice = std::move(choice),
             .ways = std::move(ways)};
  }

  UnitWays ways_of(const UpstreamModel& model, const NetworkTime& time, int64_t most) const {
    UnitWays ways(static_cast<size_t>(most) + 1);
    for (int64_t n = 1; n <= model.most_concurrent(); ++n) {
      for (int64_t a = 0; n * (a + 1) <= most; ++a) {
        const double ms = model.parts(n, a, time).total();
        auto& way = ways[static_cast<size_t>(n * (a + 1))];
        if (ms < way.ms) way = {ms, n, a};
      }
    }
    return ways;
  }

  // Of one kind, on more units than a host has, or on hosts of several.
  bool spans_hosts(const UnitChoice& choice) const {
    int64_t kinds = 0;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      const auto units = static_cast<int64_t>(choice.workers[kind].size());
      kinds += units > 0 ? 1 : 0;
      if (units > 1 && kinds_[kind].hosts.front() != kinds_[kind].hosts.back()) return true;
    }
    return kinds > 1;
  }

  std::vector<UnitKind> kinds_;
  const NetworkModel& network_;
  WeightSync sync_;
  int64_t unit_, global_batch_;
  Best best_;
};

// Units of one kind in the order in which they are used: of a choice within a host those of the
// host with the most, of one between hosts from both ends.
std::vector<size_t> hosts_for(const UnitKind& kind, size_t units, bool between_nodes) {
  if (between_nodes) {
    auto hosts = kind.hosts;
    if (units == 2) hosts[1] = hosts.back();
    return hosts;
  }
  std::map<size_t, int64_t> counts;
  for (const auto host : kind.hosts) {
    if (++counts[host] == kind.largest_host) return std::vector<size_t>(units, host);
  }
  return kind.hosts;
}

}  // namespace

UpstreamSolution solve_upstream(const Cluster& cluster, const ProfileSet& profiles, WeightSync sync,
                                int64_t unit, int64_t global_batch) {
  const NetworkModel network(profiles);
  const auto kinds = unit_kinds(cluster, profiles, unit);
  const auto best = UpstreamSearch(kinds, network, sync, unit, global_batch).run();
  UpstreamSolution found;
  if (best.ms == kNoStep) return found;
  found.is_found = true;
  found.local_batch = best.local_batch;
  found.solution.weight_sync = sync;
  double price = 0;
  for (size_t k = 0; k < kinds.size(); ++k) {
    const auto& workers = best.choice.workers[k];
    if (workers.empty()) continue;
    const auto model =
        UpstreamModel::of(*kinds[k].profile, best.local_batch, sync, network.last_share());
    const auto time = network.upstream_time(kinds[k].host, best.devices, best.between_nodes);
    const auto hosts = hosts_for(kinds[k], workers.size(), best.between_nodes);
    std::map<size_t, int64_t> used;  // devices by host
    for (size_t i = 0; i < workers.size(); ++i) {
      const auto& way = best.ways[k][static_cast<size_t>(workers[i])];
      const auto& host = cluster.hosts[hosts[i]];
      for (int64_t d = 0; d < unit; ++d) {
        found.solution.devices.push_back(
            {.name = fmt::format("{}:{}", host.name, used[hosts[i]]++),
             .host = host.name,
             .local_batch = best.local_batch * workers[i],
             .passes = {.micro_batch = best.local_batch,
                        .concurrent = way.concurrent,
                        .accumulation = way.accumulation},
             .parts = model->parts(way.concurrent, way.accumulation, time)});
        price += host.config.price();
      }
    }
  }
  found.solution.left_out = cluster.num_devices() - best.devices;
  complete(found.solution, global_batch, price);
  return found;
}

}  // namespace fovea::elastic
