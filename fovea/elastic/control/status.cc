#include "fovea/elastic/control/status.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "fovea/core/files.h"
#include "fovea/core/nearest.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/control/next_plan.h"
#include "fovea/elastic/control/scheduler.h"
#include "fovea/files/atomic_file.h"

namespace fovea::elastic {
namespace {

constexpr const char* kRunPlace = "elastic.json";
constexpr uint64_t kMaxPlaceBytes = 1 << 20;

KeyMirror::State state_of(EtcdClient& client, const RunKeys& keys) {
  return KeyMirror::read(client, with_prefix(keys.prefix()));
}

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// A name that no other request has.
std::string new_id() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

std::string state_name(const Situation& situation) {
  if (!situation.plan) return "waiting";
  const auto& plan = *situation.plan;
  if (plan.ends == "done") return "done";
  if (plan.ends == "stop" && plan.before.empty()) {
    const bool is_over = is_saved_under(plan, situation) || situation.workers.empty();
    return is_over ? "stopped" : "stopping";
  }
  return plan.members.empty() ? "parked" : "running";
}

std::vector<MemberStatus> members_of(EtcdClient& client, const RunKeys& keys, const Plan& plan,
                                     int64_t global_batch, const KeyMirror::State& state) {
  std::vector<MemberStatus> members;
  for (const auto& member : plan.members) {
    MemberStatus status{.worker = member.worker,
                        .rank = member.rank,
                        .rows = member.share.rows(global_batch),
                        .device = member.device,
                        .host = member.host};
    const auto key = state.values.find(keys.worker(member.worker));
    if (key != state.values.end() && key->second.create_revision == member.created) {
      status.lease_s = std::max<int64_t>(0, client.time_to_live(key->second.lease));
    }
    members.push_back(std::move(status));
  }
  return members;
}

void check_worker(const Situation& situation, const RunKeys& keys, const std::string& worker) {
  std::vector<std::string> names;
  for (const auto& one : situation.workers) names.push_back(one.name);
  if (std::find(names.begin(), names.end(), worker) != names.end()) return;
  fail<ConfigError>("the run '{}' has no worker '{}'{}; there are: {}", keys.run(),
                    printable_start(worker), or_did_you_mean(worker, names), listed(names));
}

// Fewer than the run needs would park it.
void check_scale(const KeyMirror::State& state, const RunKeys& keys, int64_t workers) {
  if (workers == 0) return;
  const auto run = read_record<RunRecord>(state, keys.run_record());
  if (!run || workers >= run->options.min_workers) return;
  fail<ConfigError>(
      "{} workers are fewer than elastic.min_workers={} of the run '{}'; stop it instead: fovea "
      "elastic stop --run {}",
      workers, run->options.min_workers, keys.run(), keys.run());
}

}  // namespace

std::vector<std::string> runs_of(EtcdClient& client) {
  constexpr std::string_view kPrefix = "/fovea/", kEnd = "/run";
  std::vector<std::string> runs;
  for (const auto& value : client.range(with_prefix(std::string(kPrefix))).values) {
    std::string_view key = value.key;
    if (!key.starts_with(kPrefix) || !key.ends_with(kEnd)) continue;
    key.remove_prefix(kPrefix.size());
    if (key.find('/') + kEnd.size() == key.size()) {
      runs.emplace_back(key.substr(0, key.size() - kEnd.size()));
    }
  }
  return runs;
}

RunKeys find_run(EtcdClient& client, const std::string& run) {
  const auto runs = runs_of(client);
  if (run.empty() && runs.size() == 1) return RunKeys(runs.front());
  if (!run.empty() && std::find(runs.begin(), runs.end(), run) != runs.end()) return RunKeys(run);
  std::vector<std::string> shown;
  for (const auto& name : runs) shown.push_back(printable_start(name));
  const auto there = listed(shown);
  const auto where = client.place().name();
  if (run.empty())
    fail<ConfigError>("which run of the etcd at {}? There are: {}; give --run NAME", where, there);
  fail<ConfigError>("no run '{}' in the etcd at {}{}; there are: {}", printable_start(run), where,
                    or_did_you_mean(run, runs), there);
}

RunStatus read_status(EtcdClient& client, const RunKeys& keys) {
  const auto state = state_of(client, keys);
  RunStatus status;
  status.run = keys.run();
  auto situation = situation_of(state, keys, &status.missing);
  status.state = state_name(situation);
  if (const auto leader = read_record<LeaderRecord>(state, keys.leader())) {
    status.leader = leader->name;
  }
  if (const auto& commit = situation.commit) {
    status.step = commit->step;
    status.position = commit->position;
  }
  for (const auto& worker : situation.workers) {
    if (worker.record.step <= status.step) continue;
    status.step = worker.record.step;
    status.position = worker.record.position;
  }
  if (situation.plan) {
    const auto plan = plan_in_force(situation);
    if (plan.generation != situation.plan->generation) {
      status.next_step = situation.plan->from_step;
    }
    status.generation = plan.generation;
    status.global_batch = batch_of(plan, situation);
    status.members = members_of(client, keys, plan, status.global_batch, state);
  }
  const auto run = read_record<RunRecord>(state, keys.run_record());
  status.proposal = read_record<Proposal>(state, keys.proposal());
  if (!run) return status;
  const auto next = next_plan(situation, run->options, run->identity);
  status.missing += (status.missing.empty() || next.missing.empty() ? "" : "; ") + next.missing;
  for (const auto& worker : situation.workers) {
    const auto is_it = [&](const auto& member) { return member.worker == worker.name; };
    if (std::none_of(status.members.begin(), status.members.end(), is_it)) {
      status.waiting.push_back(worker.name);
    }
  }
  return status;
}

int64_t ask(EtcdClient& client, const RunKeys& keys, const Request& request) {
  std::string unreadable;
  const auto there = state_of(client, keys);
  const auto situation = situation_of(there, keys, &unreadable);
  const auto state = state_name(situation);
  if (state == "done" || state == "stopped") {
    fail<ConfigError>("the run '{}' is {}; start it again first: fovea elastic scheduler",
                      keys.run(), state);
  }
  if (request.kind == "add" || request.kind == "remove") {
    check_worker(situation, keys, request.worker);
  }
  if (request.kind == "scale") check_scale(there, keys, request.workers);
  client.put(keys.request(new_id()), to_json(request));
  int64_t step = situation.commit ? situation.commit->step : 0;
  for (const auto& worker : situation.workers) step = std::max(step, worker.record.step);
  return request.at_step >= 0 && request.at_step <= step ? step : -1;
}

void write_run_place(const std::string& run_dir, const RunPlace& place) {
  write_file_atomic((std::filesystem::path(run_dir) / kRunPlace).string(), to_json(place) + "\n");
}

RunPlace read_run_place(const std::string& run) {
  const auto path = std::filesystem::path(run) / kRunPlace;
  if (run.empty() || !is_there(path)) return {};
  return from_json<RunPlace>(read_file(path.string(), kMaxPlaceBytes), path.string());
}

}  // namespace fovea::elastic
