#include "fovea/elastic/solve/working_sets.h"

#include <algorithm>
#include <limits>
#include <set>

#include "fovea/elastic/solve/upstream_solver.h"

namespace fovea::elastic {

WorkingSets::WorkingSets(const Cluster& cluster, const ProfileSet& profiles,
                         const WorkingSetOptions& options)
    : cluster_(cluster),
      profiles_(profiles),
      options_(options),
      model_(cluster, profiles, options.sync) {}

void WorkingSets::set_global_batch(int64_t size) {
  if (size != options_.global_batch) upstream_.clear();
  options_.global_batch = size;
}

// Each has a sample, and a slot where there are slots.
int64_t WorkingSets::most_devices(int64_t size) const {
  return options_.slots > 0 ? std::min(size, options_.slots) : size;
}

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
      model_, counts, {.global_batch = options_.global_batch, .cost_weight = options_.cost_weight});
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
  if (options_.slots > 0) set.ms = ms_with_batch(set, options_.global_batch);
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
  const auto found =
      solve_upstream(there, profiles_, options_.sync, options_.alloc_unit, options_.global_batch);
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

WorkingSet WorkingSets::first(const std::vector<bool>& present, int64_t devices) const {
  WorkingSet set;
  set.by_kind.assign(model_.kinds().size(), 0);
  auto left = std::min(devices, most_devices(options_.global_batch));
  for (size_t host = 0; host < present.size() && left > 0; ++host) {
    if (!present[host]) continue;
    const auto taken = std::min(left, cluster_.hosts[host].config.number);
    set.by_kind[model_.kind_of(host)] += taken;
    set.hosts.push_back(host);
    set.devices += taken;
    left -= taken;
  }
  return set;
}

WorkingSet WorkingSets::equal(const std::vector<bool>& present, int64_t devices) const {
  auto set = first(present, devices > 0 ? devices : std::numeric_limits<int64_t>::max());
  if (devices > 0 && set.devices < devices) return {};
  // The largest share.
  const auto parts = options_.slots > 0 ? options_.slots : options_.global_batch;
  const auto of_one = (parts + set.devices - 1) / std::max<int64_t>(1, set.devices);
  const auto share = (options_.global_batch * of_one + parts - 1) / parts;
  for (size_t kind = 0; kind < set.by_kind.size(); ++kind) {
    if (set.by_kind[kind] < 1) continue;
    const auto& device = model_.kinds()[kind];
    const auto time = model_.network().time(device.host, set.devices, set.hosts.size() > 1);
    set.ms = std::max(set.ms, device.model->milliseconds(share, time));
  }
  return set;
}

WorkingSet WorkingSets::all(const std::vector<bool>& present) const {
  auto set = first(present, std::numeric_limits<int64_t>::max());
  if (!set.is_empty()) set.ms = ms_with_batch(set, options_.global_batch);
  return set;
}

double WorkingSets::ms_with_batch(const WorkingSet& set, int64_t size) const {
  struct Kind {
    const DeviceModel* model;
    NetworkTime network;
    int64_t devices;
  };
  std::vector<Kind> kinds;
  for (size_t kind = 0; kind < set.by_kind.size(); ++kind) {
    if (set.by_kind[kind] < 1) continue;
    const auto& device = model_.kinds()[kind];
    kinds.push_back({device.model.get(),
                     model_.network().time(device.host, set.devices, set.hosts.size() > 1),
                     set.by_kind[kind]});
  }
  const auto slots = options_.slots > 0 ? options_.slots : size;
  const auto rows_of_slot = (size + slots - 1) / slots;
  // Whether all slots have a place where nobody takes longer; each has one at least.
  const auto holds = [&](double ms) {
    int64_t held = 0;
    for (const auto& kind : kinds) {
      const auto own = kind.model->capacity(ms, kind.network, size) / rows_of_slot;
      if (own < 1) return false;
      held += own * kind.devices;
    }
    return held >= slots;
  };
  double low = 0, high = 1;
  for (const auto& kind : kinds) {
    high = std::max(high, kind.model->milliseconds(size, kind.network));
  }
  constexpr int kHalvings = 50;
  for (int i = 0; i < kHalvings && high - low > 1e-9 * high; ++i) {
    const double middle = (low + high) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace fovea::elastic
