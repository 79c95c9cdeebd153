#include "fovea/elastic/solve/working_sets.h"

#include <algorithm>
#include <set>

#include "fovea/elastic/solve/upstream_solver.h"

namespace fovea::elastic {

WorkingSets::WorkingSets(const Cluster& cluster, const ProfileSet& profiles, int64_t alloc_unit,
                         int64_t global_batch, const SimulateOptions& options)
    : cluster_(cluster),
      profiles_(profiles),
      alloc_unit_(alloc_unit),
      global_batch_(global_batch),
      options_(options),
      model_(cluster, profiles, options.sync) {}

void WorkingSets::set_price(const std::string& type, double price) {
  model_.set_price(type, price);
}

double WorkingSets::price_of(const WorkingSet& set) const {
  double price = 0;
  for (size_t kind = 0; kind < set.by_kind.size(); ++kind) {
    price += static_cast<double>(set.by_kind[kind]) * model_.kinds()[kind].price;
  }
  return price;
}

WorkingSet WorkingSets::ours(const std::vector<bool>& present) const {
  std::vector<KindCount> counts(model_.kinds().size());
  std::vector<std::vector<size_t>> hosts(counts.size());
  for (size_t host = 0; host < present.size(); ++host) {
    if (!present[host]) continue;
    const auto kind = model_.kind_of(host);
    const auto number = cluster_.hosts[host].config.number;
    counts[kind].devices += number;
    counts[kind].largest_host = std::max(counts[kind].largest_host, number);
    hosts[kind].push_back(host);
  }
  const auto found = solve_counts(
      model_, counts, {.global_batch = global_batch_, .cost_weight = options_.cost_weight});
  WorkingSet set;
  if (!found.is_found) return set;
  set.ms = found.ms;
  set.devices = found.devices;
  for (size_t kind = 0; kind < found.kinds.size(); ++kind) {
    set.by_kind.push_back(found.kinds[kind].devices);
    for (const auto& use : choose_hosts(cluster_, hosts[kind], found.kinds[kind].devices)) {
      set.hosts.push_back(use.host);
    }
  }
  std::sort(set.hosts.begin(), set.hosts.end());
  return set;
}

WorkingSet WorkingSets::upstream(const std::vector<bool>& present) {
  const auto [known, is_new] = upstream_.try_emplace(present);
  auto& set = known->second;
  if (!is_new) return set;
  Cluster there;
  std::map<std::string, size_t> places;
  for (size_t host = 0; host < present.size(); ++host) {
    if (!present[host]) continue;
    there.hosts.push_back(cluster_.hosts[host]);
    places[cluster_.hosts[host].name] = host;
  }
  const auto found = solve_upstream(there, profiles_, options_.sync, alloc_unit_, global_batch_);
  if (!found.is_found) return set;
  set.ms = found.solution.iteration_ms;
  set.by_kind.assign(model_.kinds().size(), 0);
  std::set<size_t> hosts;
  for (const auto& device : found.solution.devices) {
    const auto host = places.at(device.host);
    hosts.insert(host);
    ++set.by_kind[model_.kind_of(host)];
    ++set.devices;
  }
  set.hosts.assign(hosts.begin(), hosts.end());
  return set;
}

WorkingSet WorkingSets::equal(const std::vector<bool>& present, int64_t devices) const {
  WorkingSet set;
  set.by_kind.assign(model_.kinds().size(), 0);
  auto left = devices > 0 ? devices : global_batch_;  // no more devices than samples
  for (size_t host = 0; host < present.size() && left > 0; ++host) {
    if (!present[host]) continue;
    const auto taken = std::min(left, cluster_.hosts[host].config.number);
    set.by_kind[model_.kind_of(host)] += taken;
    set.hosts.push_back(host);
    set.devices += taken;
    left -= taken;
  }
  if (devices > 0 && set.devices < devices) return {};
  const auto share = (global_batch_ + set.devices - 1) / std::max<int64_t>(1, set.devices);
  for (size_t kind = 0; kind < set.by_kind.size(); ++kind) {
    if (set.by_kind[kind] < 1) continue;
    const auto& device = model_.kinds()[kind];
    const auto time = model_.network().time(device.host, set.devices, set.hosts.size() > 1);
    set.ms = std::max(set.ms, device.model->milliseconds(share, time));
  }
  return set;
}

}  // namespace fovea::elastic
