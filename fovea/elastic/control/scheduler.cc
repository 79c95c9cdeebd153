#include "fovea/elastic/control/scheduler.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "fovea/core/host_name.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{200};
constexpr double kTellAgain = 5;           // s, until numbers of a proposal are brought up to date
constexpr milliseconds kMostSilent{5000};  // of an etcd where nothing happens, before it is asked

LeaderRecord self_of(const SchedulerOptions& options) {
  return {.name = options.name, .host = host_name("unknown"), .process = getpid()};
}

int64_t revision_at(const KeyMirror::State& state, const std::string& key) {
  const auto found = state.values.find(key);
  return found == state.values.end() ? 0 : found->second.mod_revision;
}

// "a, b".
std::string names_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& member : plan.members) names.push_back(member.worker);
  return names.empty() ? "nobody" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Situation situation_of(const KeyMirror::State& state, const RunKeys& keys,
                       std::string* unreadable) {
  Situation situation{.plan = read_record<Plan>(state, keys.plan()),
                      .orders = read_record<Orders>(state, keys.orders()),
                      .commit = read_record<Commit>(state, keys.commit())};
  for (const auto& [key, value] : state.values) {
    try {
      if (key.starts_with(keys.workers())) {
        situation.workers.push_back({.name = key.substr(keys.workers().size()),
                                     .created = value.create_revision,
                                     .record = from_json<WorkerRecord>(value.value, key)});
      } else if (key.starts_with(keys.requests())) {
        situation.requests.push_back({.id = key.substr(keys.requests().size()),
                                      .created = value.create_revision,
                                      .request = from_json<Request>(value.value, key)});
      }
    } catch (const DataError& error) {
      *unreadable += (unreadable->empty() ? "" : "; ") + std::string(error.what());
    }
  }
  return situation;
}

Scheduler::Scheduler(const EtcdClient& client, RunKeys keys, RunRecord run,
                     SchedulerOptions options)
    : client_(client.another(milliseconds(500 * options.lease_seconds))),
      keys_(std::move(keys)),
      run_(std::move(run)),
      options_(std::move(options)),
      election_(*client_, keys_, self_of(options_), options_.lease_seconds) {
  claim();
}

Scheduler::Scheduler(const EtcdClient& client, RunKeys keys, SchedulerOptions options)
    : client_(client.another(milliseconds(500 * options.lease_seconds))),
      keys_(std::move(keys)),
      options_(std::move(options)),
      election_(*client_, keys_, self_of(options_), options_.lease_seconds) {}

// A name belongs to a run for as long as somebody of it is there.
void Scheduler::claim() {
  for (;;) {
    const auto state = KeyMirror::read(*client_, with_prefix(keys_.prefix()));
    std::string unreadable;
    const auto situation = situation_of(state, keys_, &unreadable);
    const auto there = read_record<RunRecord>(state, keys_.run_record());
    const bool is_alive = state.values.contains(keys_.leader()) || !situation.workers.empty();
    if (there && run_->identity.data.empty()) run_->identity.data = there->identity.data;
    const auto text = there ? difference(*run_, *there) : "";
    if (is_alive && !text.empty()) {
      fail<ConfigError>(
          "the run '{}' of this etcd is another one, and somebody of it is there: {}; take another "
          "name (run.dir), or stop that one: fovea elastic stop --run {}",
          keys_.run(), text, keys_.run());
    }
    if (!is_alive || !end_of(situation).empty()) {
      ended_revision_ = revision_at(state, keys_.plan());
    }
    if (there && text.empty()) return;
    run_->identity.data.clear();
    const auto revision = revision_at(state, keys_.run_record());
    const auto written = client_->txn({.compares = {is_at_revision(keys_.run_record(), revision)},
                                       .success = {put_key(keys_.run_record(), to_json(*run_))}});
    if (written.is_success) return;  // else somebody was faster: who?
  }
}

std::string Scheduler::end_of(const Situation& situation) const {
  if (!situation.plan || situation.plan->ends.empty()) return {};
  const auto& plan = *situation.plan;
  const bool is_over = plan.ends == "done" || plan.members.empty() ||
                       is_saved_under(plan, situation) || situation.workers.empty();
  return is_over && plan.before.empty() ? plan.ends : "";
}

// Of a run that ended before and is gone on with: an empty plan of the next number, which keeps the
// numbers of generations rising.
void Scheduler::begin_anew(const Situation& situation, int64_t plan_revision) {
  Plan plan;
  const int64_t there = situation.plan ? situation.plan->generation : 0;
  plan.generation = std::max(there, options_.last_generation);
  plan.global_batch = run_->options.global_batch;
  EtcdTxn txn{
      .compares = {election_.held_key(), is_at_revision(keys_.plan(), plan_revision)},
      .success = {put_key(keys_.plan(), to_json(plan)), delete_keys(one_key(keys_.orders())),
                  delete_keys(with_prefix(keys_.requests()))}};
  if (situation.commit && situation.commit->is_done) {
    auto commit = *situation.commit;
    commit.is_done = false;
    txn.success.push_back(put_key(keys_.commit(), to_json(commit)));
  }
  const auto result = client_->txn(txn);
  if (result.is_success) written_ = result.revision;
}

bool Scheduler::settles(const Situation& situation, const NextPlan& next) {
  const auto now = Clock::now();
  std::map<Registration, Clock::time_point> seen;
  bool is_any_new = false;
  for (const auto& worker : situation.workers) {
    if (worker.record.state != "ready") continue;
    const auto registration = worker.registration();
    const auto before = seen_.find(registration);
    const auto since = before == seen_.end() ? now : before->second;
    seen[registration] = since;
    is_any_new = is_any_new || now - since < options_.settle;
  }
  seen_ = std::move(seen);
  const bool can_wait = next.plan->reason == "start" || next.plan->reason == "join";
  return can_wait && is_any_new;
}

void Scheduler::log(const NextPlan& next) {
  for (const auto& note : next.notes) log_warning("elastic: " + note);
  if (next.plan) {
    const auto& plan = *next.plan;
    const auto when = plan.from_step < 0 ? "" : fmt::format(" from step {} on", plan.from_step);
    log_info(fmt::format("elastic: generation {} ({}){}: {}", plan.generation, plan.reason, when,
                         names_of(plan)));
    for (const auto& why : plan.shares) {
      log_info(
          fmt::format("elastic: a step takes {:.1f} ms as shares are, and {:.1f} ms by how "
                      "fast members are",
                      why.measured_ms, why.expected_ms));
    }
  }
  if (next.missing != told_) {
    if (!next.missing.empty()) log_warning("elastic: missing: " + next.missing);
    told_ = next.missing;
  }
}

void Scheduler::write(const KeyMirror::State& state, const NextPlan& next) {
  EtcdTxn txn{.compares = {election_.held_key(),
                           is_at_revision(keys_.plan(), revision_at(state, keys_.plan())),
                           is_at_revision(keys_.orders(), revision_at(state, keys_.orders()))}};
  if (next.plan) txn.success.push_back(put_key(keys_.plan(), to_json(*next.plan)));
  if (next.orders) txn.success.push_back(put_key(keys_.orders(), to_json(*next.orders)));
  for (const auto& id : next.handled) {
    txn.success.push_back(delete_keys(one_key(keys_.request(id))));
  }
  if (next.plan && run_->identity.data.empty() && !next.data.empty()) {
    auto run = *run_;
    run.identity.data = next.data;
    txn.success.push_back(put_key(keys_.run_record(), to_json(run)));
  }
  const auto result = client_->txn(txn);
  if (result.is_success) {
    written_ = result.revision;
    log(next);
  }
}

void Scheduler::judge(Situation& situation) {
  const double now_s = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  const auto& adviser = options_.adviser;
  ShareWatch::Predict predict;
  if (adviser) {
    predict = [&](const PresentWorker& worker, int64_t rows) {
      return adviser->profile_ms(worker, rows);
    };
    auto advice = adviser->look(situation, run_->options, now_s);
    if (adviser->is_applied()) situation.chosen = std::move(advice.members);
    tell(advice.proposal, now_s);
  }
  situation.shares = shares_.look(situation, run_->options, now_s, predict);
}

// At once where it is another one, else its numbers now and then.
void Scheduler::tell(const Proposal& proposal, double now_s) {
  const auto& told = proposal_;
  const bool is_other = !told || told->take != proposal.take || told->drop != proposal.drop ||
                        told->is_worth_it != proposal.is_worth_it ||
                        told->generation != proposal.generation;
  if (!is_other && (*told == proposal || now_s - proposed_s_ < kTellAgain)) return;
  const auto written = client_->txn({.compares = {election_.held_key()},
                                     .success = {put_key(keys_.proposal(), to_json(proposal))}});
  if (!written.is_success) return;
  const bool is_news = proposal.is_worth_it && is_other;
  if (is_news) log_info("elastic: proposal: " + proposal.reason);
  proposal_ = proposal;
  proposed_s_ = now_s;
}

void Scheduler::schedule(const KeyMirror::State& state, Situation situation,
                         const std::string& unreadable) {
  if (state.revision < written_) return;  // not seen yet
  const auto revision = revision_at(state, keys_.plan());
  if (revision == ended_revision_ && (situation.plan || options_.last_generation > 0)) {
    begin_anew(situation, revision);
    return;
  }
  judge(situation);
  auto next = next_plan(situation, run_->options, run_->identity);
  if (!unreadable.empty()) next.missing += (next.missing.empty() ? "" : "; ") + unreadable;
  if (next.plan && settles(situation, next)) return;
  if (next.plan || next.orders || !next.handled.empty()) {
    write(state, next);
  } else {
    log(next);
  }
}

std::string Scheduler::run(const std::function<bool()>& is_told_to_end) {
  const bool has_patience = options_.patience > milliseconds(0);
  const auto silence = has_patience ? std::min(kMostSilent, options_.patience / 3) : kMostSilent;
  const KeyMirror mirror(*client_, with_prefix(keys_.prefix()), silence);
  while (!is_told_to_end()) {
    if (has_patience && mirror.silent_for() > options_.patience) {
      fail<EtcdAwayError>(
          "etcd at {} was not heard of for {} s, which elastic.patience allows; the last "
          "checkpoint "
          "that it has stands: start etcd and the run again, which goes on from there",
          client_->place().name(), mirror.silent_for().count() / 1000);
    }
    const auto state = mirror.state();
    if (auto run = read_record<RunRecord>(state, keys_.run_record())) run_ = std::move(run);
    std::string unreadable;
    const auto situation = situation_of(state, keys_, &unreadable);
    const auto end = end_of(situation);
    // What a run of this name came to before is no end of the one that begins here.
    if (!end.empty() && revision_at(state, keys_.plan()) != ended_revision_) {
      election_.resign();
      return end;
    }
    try {
      const bool is_free = !state.values.contains(keys_.leader());
      if (run_ && (election_.is_leader() || (is_free && election_.stand()))) {
        schedule(state, std::move(situation), unreadable);
      }
    } catch (const EtcdError& error) {
      // The mirror says that it is away; a lease that ended meanwhile is taken anew.
      const bool passes = error.kind() == EtcdError::Kind::kUnreachable ||
                          error.kind() == EtcdError::Kind::kNotFound;
      if (!passes) throw;
    }
    mirror.wait(state.number, kTick);
  }
  election_.resign();
  return {};
}

StandbyScheduler::StandbyScheduler(const EtcdClient& client, RunKeys keys, SchedulerOptions options)
    : scheduler_(client, std::move(keys), std::move(options)) {
  thread_ = std::thread([this] {
    try {
      scheduler_.run([this] { return is_ending_.load(); });
    } catch (const std::exception& error) {
      log_warning(
          fmt::format("elastic: this worker stands for election no more: {}", error.what()));
    }
  });
}

StandbyScheduler::~StandbyScheduler() {
  is_ending_ = true;
  thread_.join();
}

}  // namespace fovea::elastic
