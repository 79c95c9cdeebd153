#include "fovea/elastic/device_adviser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/control/shares.h"
#include "fovea/elastic/solve/solve_config.h"

namespace fovea::elastic {
namespace {

constexpr double kAdviseAgain = 2;  // s, where nothing has changed but numbers

bool is_in(const std::vector<Registration>& list, const Registration& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

std::vector<Registration> members_of(const Plan* plan) {
  std::vector<Registration> members;
  if (plan != nullptr) {
    for (const auto& member : plan->members) members.push_back(member.registration());
  }
  return members;
}

std::vector<const PresentWorker*> ready_ones(const Situation& situation) {
  std::vector<const PresentWorker*> there;
  for (const auto& worker : situation.workers) {
    const bool is_excluded =
        situation.orders && is_in(situation.orders->excluded, worker.registration());
    if (worker.record.state == "ready" && !is_excluded) there.push_back(&worker);
  }
  return there;
}

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string words_of(const Proposal& proposal) {
  std::vector<std::string> parts;
  if (!proposal.take.empty()) parts.push_back("take " + listed(proposal.take));
  if (!proposal.drop.empty()) parts.push_back("leave out " + listed(proposal.drop));
  const auto numbers = fmt::format(
      "a step takes {:.1f} ms in place of {:.1f} at a price of {:.2f} in place of {:.2f} "
      "an hour",
      proposal.then_ms, proposal.now_ms, proposal.then_price, proposal.now_price);
  if (parts.empty()) {
    return fmt::format(
        "the workers are as profiles would have them: {:.1f} ms a step, {:.2f} an "
        "hour",
        proposal.now_ms, proposal.now_price);
  }
  const auto why = fmt::format(
      "within the {:.2f} h until the next event that {} the pause of {:.2f} s", proposal.hours,
      proposal.is_worth_it ? "is worth" : "is not worth", proposal.pause_s);
  return fmt::format("{}: {}; {}", fmt::join(parts, ", "), numbers, why);
}

}  // namespace

// Workers as devices of hosts.
struct DeviceAdviser::Candidates {
  Cluster cluster;
  ProfileSet profiles;
  std::vector<std::vector<const PresentWorker*>> workers{};  // of each host, members in front
  std::vector<int64_t> members{};                            // of each host
  std::string unknown{};  // workers without a profile; empty: there are none
};

DeviceAdviser::DeviceAdviser(ProfileSet profiles, Cluster cluster, double cost_weight,
                             bool is_applied)
    : profiles_(std::move(profiles)),
      cluster_(std::move(cluster)),
      cost_weight_(cost_weight),
      is_applied_(is_applied) {
  for (const auto& device : profiles_.devices) {
    models_[device.fingerprint] = std::make_unique<DeviceModel>(device, WeightSync::kSequential, 1);
  }
}

const HostConfig* DeviceAdviser::host_of(const PresentWorker& worker) const {
  for (const auto& host : cluster_.hosts) {
    if (host.name == worker.record.host) return &host.config;
  }
  return nullptr;
}

const DeviceProfile* DeviceAdviser::profile_of(const PresentWorker& worker) const {
  if (const auto* found = profiles_.find("", worker.record.device)) return found;
  const auto* const host = host_of(worker);
  return host != nullptr ? profiles_.find("", host->type) : nullptr;
}

std::optional<double> DeviceAdviser::profile_ms(const PresentWorker& worker, int64_t rows) const {
  const auto* const profile = profile_of(worker);
  if (profile == nullptr || rows < 1) return {};
  return models_.at(profile->fingerprint)->milliseconds(rows, {});
}

void DeviceAdviser::count_events(const std::vector<const PresentWorker*>& there, double now_s) {
  std::vector<Registration> names;
  for (const auto* worker : there) names.push_back(worker->registration());
  std::sort(names.begin(), names.end());
  if (started_s_ < 0) started_s_ = now_s;
  if (names == there_) return;
  there_ = std::move(names);
  ++events_;
}

void DeviceAdviser::follow_batch(const Plan& plan, const Situation& situation) {
  int64_t samples = 0;
  for (const auto& worker : situation.workers) {
    samples = std::max(samples, worker.record.position);
  }
  if (!batches_.empty() && batches_.back().global_batch == plan.global_batch) return;
  batches_.push_back({static_cast<double>(samples), plan.global_batch});
}

int DeviceAdviser::level_of(const PresentWorker& worker, const Plan* plan) {
  auto& level = levels_[worker.registration()];
  const auto& record = worker.record;
  if (plan == nullptr || record.generation != plan->generation || record.timed_steps < 1) {
    return level;
  }
  for (const auto& member : plan->members) {
    if (member.registration() != worker.registration()) continue;
    const auto rows = member.share.rows(plan->global_batch);
    const auto predicted = profile_ms(worker, rows);
    const double measured = static_cast<double>(rows) * record.row_ms;
    if (!predicted || *predicted <= 0 || measured <= 0) continue;
    const double exact = std::max(0.0, 2 * std::log2(measured / *predicted));
    if (std::abs(exact - level) > 0.75) level = static_cast<int>(std::lround(exact));
  }
  return level;
}

DeviceAdviser::Candidates DeviceAdviser::candidates_of(
    const std::vector<const PresentWorker*>& there, const Plan* plan) {
  Candidates found{.cluster = {},
                   .profiles = {.source = profiles_.source,
                                .model = profiles_.model,
                                .bucket_megabytes = profiles_.bucket_megabytes,
                                .communication = profiles_.communication,
                                .has_lines = profiles_.has_lines,
                                .intra = profiles_.intra,
                                .inter = profiles_.inter}};
  const auto members = members_of(plan);
  // Hosts with members stand in front: of equal ones the first are taken.
  auto ordered = there;
  std::sort(ordered.begin(), ordered.end(), [&](const auto* a, const auto* b) {
    return std::pair(!is_in(members, a->registration()), a->created) <
           std::pair(!is_in(members, b->registration()), b->created);
  });
  std::map<std::string, size_t> places;
  std::set<std::string> kinds;
  for (const auto* worker : ordered) {
    const auto* const profile = profile_of(*worker);
    if (profile == nullptr) {
      found.unknown += fmt::format("{}worker {} is a '{}'", found.unknown.empty() ? "" : ", ",
                                   worker->name, printable_start(worker->record.device));
      continue;
    }
    const int level = level_of(*worker, plan);
    const double factor = std::pow(2.0, level / 2.0);
    const auto kind = level == 0
                          ? profile->fingerprint
                          : fmt::format("{}, {:.1f} times as slow", profile->fingerprint, factor);
    if (kinds.insert(kind).second) {
      auto device = *profile;
      device.fingerprint = kind;
      for (auto& point : device.computation) {
        for (auto* ms : {&point.data_ms, &point.forward_ms, &point.backward_ms, &point.update_ms,
                         &point.copy_ms, &point.sync_ms}) {
          *ms *= factor;
        }
      }
      found.profiles.devices.push_back(std::move(device));
    }
    const auto name = worker->record.host + "\n" + kind;
    const auto [place, is_new] = places.emplace(name, found.cluster.hosts.size());
    if (is_new) {
      HostConfig config;
      if (const auto* const host = host_of(*worker)) config = *host;
      if (cluster_.hosts.empty()) config.price_per_hour = 1;
      config.type = kind;
      config.number = 0;
      found.cluster.hosts.push_back({name, config});
      found.workers.emplace_back();
      found.members.push_back(0);
    }
    ++found.cluster.hosts[place->second].config.number;
    found.workers[place->second].push_back(worker);
    if (is_in(members, worker->registration())) ++found.members[place->second];
  }
  return found;
}

Advice DeviceAdviser::advice_of(Candidates& candidates, const Plan* plan, bool has_lost,
                                double pause_s, double samples, const PlanOptions& options,
                                double now_s) {
  const auto batch = plan != nullptr ? plan->global_batch : options.global_batch;
  WorkingSets sets(candidates.cluster, candidates.profiles,
                   {.global_batch = batch,
                    .slots = options.slots,
                    .cost_weight = cost_weight_,
                    .sync = recommended_sync(candidates.profiles.bucket_megabytes)});
  WorkingSet working;
  working.by_kind.assign(sets.model().kinds().size(), 0);
  for (size_t host = 0; host < candidates.members.size(); ++host) {
    if (candidates.members[host] < 1) continue;
    working.hosts.push_back(host);
    working.devices += candidates.members[host];
    working.by_kind[sets.model().kind_of(host)] += candidates.members[host];
  }
  if (!working.is_empty()) working.ms = sets.ms_with_batch(working, batch);
  const auto events = std::max<int64_t>(1, events_ - 1);
  const Horizon horizon{
      .hours = (now_s - started_s_) / kSecondsOfHour / static_cast<double>(events),
      .pause_s = pause_s,
      .samples = samples,
      .batches = batches_};
  const auto choice = choose_ours(sets, std::vector<bool>(candidates.members.size(), true), working,
                                  has_lost, horizon);
  Advice advice;
  auto& proposal = advice.proposal;
  proposal.generation = plan != nullptr ? plan->generation : 0;
  proposal.now_ms = working.ms;
  proposal.now_price = sets.price_of(working);
  proposal.then_ms = choice.set.ms;
  proposal.then_price = sets.price_of(choice.set);
  proposal.pause_s = pause_s;
  proposal.hours = horizon.hours;
  std::set<Registration> best;
  for (size_t kind = 0; kind < choice.set.by_kind.size(); ++kind) {
    std::vector<size_t> hosts;
    for (size_t host = 0; host < candidates.workers.size(); ++host) {
      if (sets.model().kind_of(host) == kind) hosts.push_back(host);
    }
    for (const auto& use : choose_hosts(candidates.cluster, hosts, choice.set.by_kind[kind])) {
      for (int64_t i = 0; i < use.devices; ++i) {
        best.insert(candidates.workers[use.host][static_cast<size_t>(i)]->registration());
      }
    }
  }
  const auto members = members_of(plan);
  advice.members.emplace();
  for (const auto& of_host : candidates.workers) {
    for (const auto* worker : of_host) {
      const auto one = worker->registration();
      const bool is_member = is_in(members, one);
      if (best.contains(one) && !is_member) proposal.take.push_back(worker->name);
      if (!best.contains(one) && is_member) proposal.drop.push_back(worker->name);
      if (choice.changes ? best.contains(one) : is_member) advice.members->push_back(one);
    }
  }
  proposal.is_worth_it = choice.changes && !(proposal.take.empty() && proposal.drop.empty());
  proposal.reason = words_of(proposal);
  return advice;
}

Advice DeviceAdviser::look(const Situation& situation, const PlanOptions& options, double now_s) {
  const auto there = ready_ones(situation);
  count_events(there, now_s);
  std::optional<Plan> plan;
  if (situation.plan) {
    plan = plan_in_force(situation);
    plan->global_batch = batch_of(*plan, situation);
  }
  const Plan* const now = plan && !plan->members.empty() ? &*plan : nullptr;
  if (now != nullptr) follow_batch(*now, situation);
  bool has_lost = false;
  double pause_s = 0, samples = 0;
  for (const auto& one : members_of(now)) {
    has_lost |= std::none_of(there.begin(), there.end(), [&](const PresentWorker* worker) {
      return worker->registration() == one;
    });
  }
  for (const auto* worker : there) {
    pause_s = std::max(pause_s, worker->record.pause_s);
    samples = std::max(samples, static_cast<double>(worker->record.position));
  }
  auto hangs_on = fmt::format("{} {} {}", now != nullptr ? now->generation : 0, has_lost,
                              now != nullptr ? now->global_batch : 0);
  for (const auto& one : there_) hangs_on += fmt::format(" {}:{}", one.worker, one.created);
  if (hangs_on == looked_at_ && now_s - looked_s_ < kAdviseAgain) return last_;
  looked_at_ = std::move(hangs_on);
  looked_s_ = now_s;
  auto candidates = candidates_of(there, now);
  last_ = {};
  if (!candidates.unknown.empty()) {
    last_.proposal.generation = now != nullptr ? now->generation : 0;
    last_.proposal.reason = fmt::format("none: {}, and {} has no profile of that; all take part",
                                        candidates.unknown, profiles_.source);
  } else if (!candidates.workers.empty()) {
    last_ = advice_of(candidates, now, has_lost, pause_s, samples, options, now_s);
  }
  return last_;
}

namespace {

// What was measured of passes as the run takes them: so many at once, or one after another where
// that was not measured.
ProfileSet as_run(ProfileSet profiles, std::optional<int64_t> concurrent_passes) {
  if (!concurrent_passes) return profiles;
  for (auto& device : profiles.devices) {
    const bool is_measured =
        std::any_of(device.computation.begin(), device.computation.end(), [&](const auto& point) {
          return point.concurrent == *concurrent_passes &&
                 point.concurrent <= device.max_concurrent(point.local_batch);
        });
    std::erase_if(device.computation, [&](const auto& point) {
      return point.concurrent != (is_measured ? *concurrent_passes : 1);
    });
  }
  return profiles;
}

}  // namespace

std::shared_ptr<Adviser> make_adviser(const train::ElasticConfig& config,
                                      std::optional<int64_t> concurrent_passes) {
  const auto weight = cost_weight_from(config.objective);
  if (!weight) {
    fail<ConfigError>("elastic.objective: found '{}'; expected time, cost or a number from 0 to 1",
                      printable_start(config.objective));
  }
  if (config.profile_dir.empty() || config.propose == "off") return nullptr;
  Cluster cluster;
  if (!config.gpu_cluster_info.empty()) cluster = load_cluster(config.gpu_cluster_info, {});
  return std::make_shared<DeviceAdviser>(
      as_run(read_profiles(config.profile_dir), concurrent_passes), std::move(cluster), *weight,
      config.propose == "apply");
}

}  // namespace fovea::elastic
