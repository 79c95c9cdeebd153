#include "fovea/elastic/solve/solver.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/elastic/solve/set_search.h"

namespace fovea::elastic {
namespace {

std::vector<KindCount> counts_of(const Cluster& cluster, const SolveModel& model) {
  std::vector<KindCount> counts(model.kinds().size());
  for (size_t host = 0; host < cluster.hosts.size(); ++host) {
    auto& count = counts[model.kind_of(host)];
    count.devices += cluster.hosts[host].config.number;
    count.largest_host = std::max(count.largest_host, cluster.hosts[host].config.number);
  }
  return counts;
}

}  // namespace

SolveModel::SolveModel(const Cluster& cluster, const ProfileSet& profiles, WeightSync sync)
    : sync_(sync), network_(profiles) {
  using Key = std::tuple<const DeviceProfile*, double, double, double>;
  std::map<Key, size_t> known;
  for (const auto& host : cluster.hosts) {
    const auto* profile = profiles.find(host.name, host.config.type);
    if (profile == nullptr) {
      fail<DataError>("{}: no profile of '{}', the devices of host {}", profiles.source,
                      host.config.type, host.name);
    }
    // JABAS has a profile of each host; those of copied files are of one kind.
    const auto same = std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& kind) {
      return kind.profile->fingerprint == profile->fingerprint &&
             kind.profile->computation == profile->computation &&
             kind.profile->memory == profile->memory;
    });
    if (same != kinds_.end()) profile = same->profile;
    const Key key{profile, host.config.intra_network_bandwidth, host.config.inter_network_bandwidth,
                  host.config.price()};
    const auto [place, is_new] = known.emplace(key, kinds_.size());
    kind_of_host_.push_back(place->second);
    if (!is_new) continue;
    kinds_.push_back({.type = host.config.type,
                      .host = host.config,
                      .price = host.config.price(),
                      .model = std::make_shared<DeviceModel>(*profile, sync, network_.last_share()),
                      .profile = profile});
  }
}

void SolveModel::set_price(const std::string& type, double price) {
  for (auto& kind : kinds_) {
    if (kind.type == type) kind.price = price;
  }
}

CountSolution solve_counts(const SolveModel& model, const std::vector<KindCount>& counts,
                           const SolveOptions& options) {
  CountSolution best;
  std::vector<int64_t> all;
  int64_t total = 0, largest = 0;
  for (const auto& count : counts) {
    all.push_back(count.devices);
    total += count.devices;
    largest = std::max(largest, count.largest_host);
  }
  if (total > largest) {
    SetSearch(model, all, true, options, best).run(std::min<int64_t>(2, total), total);
  }
  for (size_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind].largest_host < 1) continue;
    std::vector<int64_t> of_host(counts.size(), 0);
    of_host[kind] = counts[kind].largest_host;
    SetSearch(model, of_host, false, options, best).run(1, of_host[kind]);
  }
  return best;
}

std::vector<HostUse> choose_hosts(const Cluster& cluster, std::vector<size_t> hosts,
                                  int64_t devices) {
  const auto number = [&](size_t host) { return cluster.hosts[host].config.number; };
  std::stable_sort(hosts.begin(), hosts.end(),
                   [&](size_t a, size_t b) { return number(a) > number(b); });
  std::vector<HostUse> uses;
  for (size_t i = 0; i < hosts.size() && devices > 0; ++i) {
    // Of hosts that have room for all that are left, the first of the smallest.
    size_t chosen = i;
    for (size_t k = i + 1; k < hosts.size() && number(hosts[k]) >= devices; ++k) {
      if (number(hosts[k]) < number(hosts[chosen])) chosen = k;
    }
    const auto taken = std::min(devices, number(hosts[chosen]));
    uses.push_back({hosts[chosen], taken});
    devices -= taken;
    if (chosen != i) break;
  }
  return uses;
}

std::vector<int64_t> shares_of(const std::vector<KindShare>& kinds, int64_t global_batch) {
  std::vector<int64_t> most;
  for (const auto& kind : kinds) {
    most.insert(most.end(), static_cast<size_t>(kind.devices), kind.most_samples);
  }
  const auto devices = static_cast<int64_t>(most.size());
  const auto room = std::accumulate(most.begin(), most.end(), int64_t{0}) - devices;
  // Device i ends where a line from 0 to all samples is behind it: nobody gets more than it may.
  std::vector<int64_t> shares;
  const double slope =
      room > 0 ? static_cast<double>(global_batch - devices) / static_cast<double>(room) : 0;
  int64_t before = 0, given = 0;
  for (const auto one : most) {
    before += one - 1;
    const auto until = before == room ? global_batch - devices
                                      : static_cast<int64_t>(static_cast<double>(before) * slope);
    shares.push_back(1 + std::min(one - 1, until - given));
    given += shares.back() - 1;
  }
  // What rounding left: to whoever has room.
  auto left = global_batch - devices - given;
  for (size_t i = 0; i < shares.size() && left > 0; ++i) {
    const auto more = std::min(left, most[i] - shares[i]);
    shares[i] += more;
    left -= more;
  }
  return shares;
}

void complete(Solution& solution, int64_t global_batch, double cost_per_hour) {
  for (const auto& device : solution.devices) {
    if (device.parts.total() < solution.iteration_ms) continue;
    solution.iteration_ms = device.parts.total();
    solution.parts = device.parts;
  }
  solution.images_per_second = 1000 * static_cast<double>(global_batch) / solution.iteration_ms;
  solution.cost_per_hour = cost_per_hour;
}

Solution solve(const Cluster& cluster, const SolveModel& model, const SolveOptions& options) {
  if (options.global_batch < 1) {
    fail<ConfigError>("--global-batch: found {}; expected 1 or more", options.global_batch);
  }
  const auto best = solve_counts(model, counts_of(cluster, model), options);
  if (!best.is_found) {
    fail<ConfigError>("no choice of devices takes a global batch of {}", options.global_batch);
  }
  Solution solution{.weight_sync = model.sync()};
  const auto shares = shares_of(best.kinds, options.global_batch);
  std::vector<std::pair<size_t, HostUse>> uses;  // by kind
  for (size_t kind = 0; kind < best.kinds.size(); ++kind) {
    std::vector<size_t> hosts;
    for (size_t host = 0; host < cluster.hosts.size(); ++host) {
      if (model.kind_of(host) == kind) hosts.push_back(host);
    }
    for (const auto& use : choose_hosts(cluster, hosts, best.kinds[kind].devices)) {
      uses.emplace_back(kind, use);
    }
  }
  const bool between_nodes = uses.size() > 1;
  double price = 0;
  for (const auto& [kind, use] : uses) {
    const auto& device = model.kinds()[kind];
    const auto time = model.network().time(device.host, best.devices, between_nodes);
    const auto& host = cluster.hosts[use.host].name;
    price += static_cast<double>(use.devices) * device.price;
    for (int64_t i = 0; i < use.devices; ++i) {
      const auto samples = shares[solution.devices.size()];
      const auto& way = device.model->fastest(samples, time);
      solution.devices.push_back({.name = fmt::format("{}:{}", host, i),
                                  .host = host,
                                  .local_batch = samples,
                                  .passes = passes_of(way, samples),
                                  .parts = way.parts(samples, time)});
    }
  }
  solution.left_out = cluster.num_devices() - best.devices;
  complete(solution, options.global_batch, price);
  return solution;
}

}  // namespace fovea::elastic
