// A worker's way into a generation; see Note [Generations].
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/wall_clock.h"
#include "fovea/data/order/batch_schedule.h"
#include "fovea/elastic/worker_state.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/parallel/rank_error.h"
#include "fovea/train/ranks.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of silence after which a member counts as gone, where etcd has not said so before.
constexpr double kSilence = 60;

std::vector<Member> everybody(const Plan& plan, bool with_leaving) {
  auto all = plan.members;
  if (with_leaving) all.insert(all.end(), plan.leaving.begin(), plan.leaving.end());
  return all;
}

data::BatchShare share_of(const ShareRecord& share) { return {share.first, share.last, share.of}; }

}  // namespace

int64_t Worker::own_rank(const Plan& plan) {
  const auto own = presence_->membership().registration();
  for (const auto& member : everybody(plan, true)) {
    if (member.registration() == own) return member.rank;
  }
  throw parallel::RankError(
      fmt::format("worker {} has lost its place in generation {}", options_.name, plan.generation));
}

// all: whose world it is, by rank.
parallel::Launch Worker::launch_of(const Plan& plan, const std::vector<Member>& all) {
  parallel::Launch launch;
  launch.launcher = "fovea elastic";
  launch.rank = own_rank(plan);
  launch.world_size = std::ssize(all);
  launch.local_size = 0;
  const auto& own = all.at(static_cast<size_t>(launch.rank));
  for (const auto& member : all) {
    if (member.host != own.host || member.address != own.address) continue;
    if (member.rank < launch.rank) ++launch.local_rank;
    ++launch.local_size;
  }
  launch.address = plan.store.address;
  launch.port = plan.store.port;
  launch.secret = plan.store.secret;
  launch.run_id = keys_.run();
  launch.collectives = collectives_;
  return launch;
}

// number: of the world, within the plan's place to meet.
std::unique_ptr<parallel::World> Worker::make_world(
    const Plan& plan, int64_t number, bool with_leaving,
    const std::shared_ptr<parallel::Interrupt>& interrupt) {
  auto launch = launch_of(plan, everybody(plan, with_leaving));
  // The members' own world, beside the meeting, has that one's store.
  launch.is_store_hosted = !with_leaving && !plan.leaving.empty();
  const auto* const listeners = launch.has_store() ? offers_.listeners_of(plan.store) : nullptr;
  if (launch.has_store() && launch.world_size > 1 && listeners == nullptr) {
    throw parallel::RankError(
        fmt::format("worker {} does not have the place to meet of generation {} any more",
                    options_.name, plan.generation));
  }
  if (launch.world_size == 1 && config_.device.threads == 0) {
    at::set_num_threads(static_cast<int>(parallel::threads_per_rank(launch)));
  }
  auto config = config_.launch;
  config.processes = 1;
  return std::make_unique<parallel::World>(
      launch, config, options_.device_backend,
      parallel::Generation{
          .number = number, .silence = kSilence, .interrupt = interrupt, .listeners = listeners});
}

// Brings this worker to the step that all have done, or gives its state up.
void Worker::settle_step(const StepAgreement& agreement, StepChoice own, const Plan& plan) {
  if (!run_.place.state) return;
  if (own == StepChoice::kDiscard) {
    log_info(
        fmt::format("worker {}: generation {} goes on from step {}, and what this worker has of "
                    "step {} cannot: "
                    "it gets the state from the others",
                    options_.name, plan.generation, agreement.done, run_.step));
    run_.place = {};
    return;
  }
  if (run_.step == agreement.done) return;
  run_.count_broken_step(carry_out(agreement, own, run_.state(), run_.lr(run_.step)));
}

// As the first member knows it: one commit for all.
CommittedState Worker::committed(parallel::World& meeting) {
  std::string own;
  if (meeting.is_first()) {
    try {
      if (const auto commit = last_commit()) own = to_json(*commit);
    } catch (const EtcdError& error) {
      log_warning(fmt::format("elastic: the last checkpoint is not known: {}", error.what()));
    }
  }
  const auto text = parallel::all_gather_text(meeting.all(), own, "the last checkpoint").front();
  if (text.empty()) return {};
  const auto commit = from_json<Commit>(text, "the last checkpoint");
  if (commit.checkpoint.empty()) return {};
  return {.folder = run_.folder.path() / commit.checkpoint, .step = commit.step};
}

// A member's place on the new mesh -> what it is to hold there, where others have that.
checkpoint::State Worker::make_place(Members& next, bool is_held) {
  const auto& plan = next.plan;
  const auto& mesh = plan.mesh;
  if (!plan.leaving.empty()) {
    next.own = make_world(plan, 2 * plan.generation + 1, false, next.interrupt);
  }
  run_.config.parallel.dp_replicate = mesh.dp_replicate;
  run_.config.parallel.dp_shard = mesh.dp_shard;
  run_.hooks.generation = plan.generation;
  const parallel::MeshShape shape{.sizes = {mesh.dp_replicate, mesh.dp_shard, mesh.cp, mesh.tp}};
  run_.enter(next.world(), std::make_unique<parallel::DeviceMesh>(next.world(), shape));
  return is_held ? run_.state().save(train::HaveAlike::kEach) : checkpoint::State();
}

// The state of this worker on the new mesh; the one before is there until all have theirs.
void Worker::lay_out(Members& next, const StepAgreement& agreement, Change& change) {
  const bool is_member = own_rank(next.plan) < std::ssize(next.plan.members);
  const bool is_held = agreement.done >= 0;
  auto start = Clock::now();
  const double not_ended = run_.place.state && run_.ended_step < run_.step ? 1 : 0;
  const bool is_ended =
      parallel::max_over_ranks(next.meeting->all(), not_ended, "what is due after a step") == 0;
  const auto last = committed(*next.meeting);
  Holding held{.worker = options_.name, .step = -1, .state = {}};
  if (run_.place.state) {
    held = make_holding(options_.name, run_.step, run_.checkpoint(train::HaveAlike::kEach));
  }
  auto before = std::exchange(run_.place, {});
  try {
    const auto wanted = is_member ? make_place(next, is_held) : checkpoint::State();
    change.groups = seconds_since(std::exchange(start, Clock::now()));
    if (is_held) {
      const auto relaid = relay(*next.meeting, held, wanted, last);
      FOVEA_CHECK(relaid, "step {} is held, and nobody has it", agreement.done);
      change.bytes_from_peers = relaid->bytes_from_peers;
      change.bytes_from_checkpoint = relaid->bytes_from_checkpoint;
      if (is_member) run_.take(relaid->state);
    } else if (is_member) {
      run_.resume();
    }
  } catch (...) {
    run_.place = std::move(before);
    throw;
  }
  change.relay = seconds_since(start);
  if (!is_member || !is_held) return;
  run_.saved_step = last.step == run_.step ? run_.step : -1;
  if (!is_ended && run_.step == agreement.done) run_.ended_step = run_.step - 1;
}

void Worker::tell_event(const Plan& plan, const Change& change, int64_t steps_lost) {
  if (!run_.is_writer()) return;
  Event event{.generation = plan.generation, .reason = plan.reason};
  for (const auto& member : plan.members) event.workers.push_back(member.worker);
  event.step = run_.step;
  event.position = run_.position;
  event.detect_s = change.detect;
  event.agree_s = change.agree;
  event.groups_s = change.groups;
  event.relay_s = change.relay;
  event.pause_s = seconds_since(change.since);
  event.bytes_from_peers = static_cast<int64_t>(change.bytes_from_peers);
  event.bytes_from_checkpoint = static_cast<int64_t>(change.bytes_from_checkpoint);
  event.steps_lost = steps_lost;
  event.time = seconds_since_1970();
  event.global_batch = run_.order().batch_size_at(run_.position);
  for (const auto& member : plan.members) {
    event.rows.push_back(member.share.rows(event.global_batch));
  }
  event.shares = plan.shares;
  event.measured = plan.measured;
  journal_->add(event);
  log_info(fmt::format(
      "generation {} ({}), step {}: {} members after {:.2f} s without a step ({:.2f} s to learn of "
      "it, {:.2f} s to agree, {:.2f} s for groups, {:.2f} s for the state), {} steps lost",
      plan.generation, plan.reason, run_.step, plan.members.size(), event.pause_s, change.detect,
      change.agree, change.groups, change.relay, steps_lost));
}

// This member's rows, the batch, and all that follows from the state.
void Worker::begin_generation(const Plan& plan) {
  const auto share = share_of(plan.members.at(static_cast<size_t>(own_rank(plan))).share);
  run_.training.loader->set_share(share);
  auto& shares = run_.state().options.shares;  // of each rank that has a part of its own
  shares.clear();
  for (int64_t rank = 0; rank < std::ssize(plan.members); rank += plan.mesh.tp * plan.mesh.cp) {
    shares.push_back(share_of(plan.members[static_cast<size_t>(rank)].share));
  }
  if (run_.validation.loader) {
    run_.validation.loader->set_share(train::data_share(*run_.place.mesh));
  }
  run_.take_batch_request(plan.batch_request, plan.global_batch);
  if (run_.is_writer() && run_.order().has_changes()) {
    data::write_batch_schedule(run_.folder.file(train::kBatchScheduleFile).string(),
                               run_.order().batch_schedule());
  }
  run_.begin();
}

bool Worker::enter(const Plan& plan) {
  pulse_.set_waits([] { return true; });
  Change change{.since = since_};
  change.detect = seconds_since(since_);
  auto start = Clock::now();
  Members next;
  next.plan = plan;
  next.interrupt = std::make_shared<parallel::Interrupt>();
  follower_->guard(plan, next.interrupt);
  presence_->change([&](WorkerRecord& worker) {
    worker.generation = plan.generation;
    worker.timed_steps = 0;  // those are of the generation before
  });
  // What is left of the members before ends for all of them, where it has not yet.
  const bool had_state = run_.place.state != nullptr;
  const auto stand = stand_of(run_);
  if (is_broken_ && run_.place.state) run_.state().leave_ranks();
  next.meeting = make_world(plan, 2 * plan.generation, true, next.interrupt);
  const auto agreement = agree_on_step(*next.meeting, stand);
  const double most_done =
      parallel::max_over_ranks(next.meeting->all(), static_cast<double>(stand.done), "steps done");
  settle_step(agreement, agreement.choices.at(static_cast<size_t>(own_rank(plan))), plan);
  change.agree = seconds_since(start);
  lay_out(next, agreement, change);
  const bool is_member = own_rank(plan) < std::ssize(plan.members);
  members_ = std::move(next);
  is_broken_ = false;
  times_.start();
  if (!is_member) {
    run_.place = {};
    members_ = {};
    tell_state();
    return false;
  }
  pause_s_ = had_state ? seconds_since(change.since) : 0;
  tell_state();
  begin_generation(plan);
  const auto lost = std::max<int64_t>(0, static_cast<int64_t>(most_done) - run_.step);
  tell_event(plan, change, lost);
  return true;
}

}  // namespace fovea::elastic
