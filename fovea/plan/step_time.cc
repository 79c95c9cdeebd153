#include "fovea/plan/step_time.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fovea::plan {
namespace {

using parallel::Collective;

constexpr double kTensorsMoved = 3;  // for each that is made

struct Placement {
  bool is_one_node = true;
  double ranks_on_node = 1;  // of the group, at most
};

Placement placement_of(const MachineProfile& machine, const std::vector<int64_t>& ranks) {
  std::map<int64_t, int64_t> on_node;
  for (const auto rank : ranks) on_node[rank / machine.ranks_per_node] += 1;
  int64_t most = 1;
  for (const auto& [node, count] : on_node) most = std::max(most, count);
  return {on_node.size() == 1, static_cast<double>(most)};
}

}  // namespace

double collective_seconds(const MachineProfile& machine, const std::vector<int64_t>& ranks,
                          Collective collective, int64_t bytes) {
  const auto n = static_cast<double>(ranks.size());
  if (ranks.size() < 2) return 0;
  const auto place = placement_of(machine, ranks);
  const double intra = 1e9 * machine.intra_node_bandwidth,
               inter = 1e9 * machine.inter_node_bandwidth;
  const double bandwidth = place.is_one_node ? intra : std::min(intra, place.ranks_on_node * inter);
  const double latency =
      1e-6 * (place.is_one_node ? machine.intra_node_latency : machine.inter_node_latency);
  const double messages = std::ceil(std::log2(n)) * latency;
  const auto size = static_cast<double>(bytes);
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n * size / bandwidth + 2 * messages;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return (n - 1) / n * size / bandwidth + messages;
    case Collective::kAllToAll: {
      const double stays = place.is_one_node ? n - 1 : place.ranks_on_node - 1;
      const double leaves = n - 1 - stays;
      return std::max(stays / n * size / intra, leaves / n * size / inter) + (n - 1) * latency;
    }
    case Collective::kShift:  // the slowest link decides
      return size / (place.is_one_node ? intra : std::min(intra, inter)) + latency;
    case Collective::kBroadcast:
      return size / bandwidth + messages;
    case Collective::kBarrier:
      return messages;
  }
  return 0;
}

StepTime step_time(const Rehearsal& rehearsal, const MachineProfile& machine,
                   c10::ScalarType dtype) {
  struct Running {
    double end = 0;
    size_t group = 0;
  };
  StepTime result;
  std::map<int64_t, Running> running;
  double now = 0, free_intra = 0, free_inter = 0;
  std::vector<bool> is_one_node;
  for (const auto& group : rehearsal.groups) {
    is_one_node.push_back(placement_of(machine, group.ranks).is_one_node);
  }
  rehearsal.for_each([&](const Event& event) {
    const double products = (event.flops - event.fp8_flops) / machine.flops(dtype) +
                            (event.fp8_flops > 0 ? event.fp8_flops / machine.fp8_flops() : 0);
    const double memory = std::max(kTensorsMoved * static_cast<double>(event.made_bytes),
                                   static_cast<double>(event.update_bytes)) /
                          (1e9 * machine.memory_bandwidth);
    result.products += products;
    result.memory += memory;
    now += products + memory;
    if (event.kind == Event::Kind::kStart) {
      const auto& group = rehearsal.groups[event.group];
      double& free = is_one_node[event.group] ? free_intra : free_inter;
      const double seconds =
          collective_seconds(machine, group.ranks, event.collective, event.bytes);
      free = std::max(now, free) + seconds;
      running[event.id] = {free, event.group};
      result.busy_by_axis[group.axis] += seconds;
    } else if (event.kind == Event::Kind::kWait) {
      const auto found = running.find(event.id);
      if (found == running.end()) return;  // of a step before
      const double waits = std::max(0.0, found->second.end - now);
      result.exposed += waits;
      result.exposed_by_axis[rehearsal.groups[found->second.group].axis] += waits;
      now += waits;
      running.erase(found);
    }
  });
  result.step = now;
  return result;
}

}  // namespace fovea::plan
