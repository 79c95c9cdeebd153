#include "fovea/elastic/worker.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/host_name.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/elastic/device_adviser.h"
#include "fovea/elastic/worker_state.h"
#include "fovea/files/sha256.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/parallel/rank_error.h"
#include "fovea/train/bench/machine.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/session.h"

namespace fovea::elastic {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTellEvery{500};  // how far a worker is
constexpr milliseconds kAddressPatience{10000};
constexpr milliseconds kFenceTimeout{1000};

milliseconds milliseconds_of(double seconds) {
  return milliseconds(static_cast<int64_t>(seconds * 1000));
}

std::string short_sum(const std::string& text) { return sha256_of(text).substr(0, 16); }

// What data is, as far as one batch of it says: "60000 samples of 10 classes, 1a2b...".
std::string identity_of(const data::Dataset& dataset, const data::Batch& batch) {
  std::string text;
  for (const auto label : batch.labels) text += fmt::format("{} ", label);
  for (const auto index : batch.indices) text += fmt::format("{} ", index);
  return fmt::format("{} samples of {} classes, {}", dataset.size(), dataset.num_classes(),
                     short_sum(text));
}

}  // namespace

std::string identity_of(const train::TrainConfig& config) {
  return short_sum(train::course_of(config));
}

namespace {

// Without one the worker schedules as without profiles.
std::shared_ptr<Adviser> adviser_of(const train::TrainConfig& config) {
  try {
    return make_adviser(config.elastic, config.trainer.concurrent_passes);
  } catch (const Error& error) {
    log_warning(fmt::format("elastic: this worker would propose no devices: {}", error.what()));
    return nullptr;
  }
}

// Of this machine, towards etcd: as other workers reach it. A port is needed, any will do.
std::string own_address(const EtcdPlace& place) {
  return parallel::address_towards(place.first_host(), 2379,
                                   std::chrono::steady_clock::now() + kAddressPatience);
}

}  // namespace

Worker::Worker(const EtcdClient& client, RunKeys keys, const train::TrainConfig& config,
               const WorkerOptions& options)
    : client_(client),
      keys_(std::move(keys)),
      config_(config),
      options_(options),
      collectives_(parallel::collectives_from(parallel::process_environment())),
      pulse_(milliseconds_of(config.elastic.hang_after)),
      run_(config, options.progress, {.role = train::FolderRole::kShared, .suffix = options.name},
           {}),
      fence_client_(client.another(kFenceTimeout)),
      plans_(client, keys_),
      offers_(own_address(client.place())) {
  run_.hooks = hooks();
  journal_.emplace(config.run.dir, options_.name, config.elastic.log_samples,
                   [this] { return may_publish(); });
  const auto record = first_record();
  presence_.emplace(client_, keys_, options_.name, record,
                    MembershipOptions{.seconds = config.elastic.lease,
                                      .is_alive = [this] { return pulse_.is_alive(); }});
  standby_.emplace(client_, keys_,
                   SchedulerOptions{.name = options_.name,
                                    .lease_seconds = config.elastic.lease,
                                    .last_generation = last_generation(config.run.dir),
                                    .adviser = adviser_of(config)});
  follower_.emplace(plans_, [this](const Plan& plan) {
    if (!offers_.renew_after(plan.store)) return;
    presence_->change([this](WorkerRecord& worker) { worker.store = offers_.current(); });
  });
}

Worker::~Worker() {
  pulse_.set_waits([] { return true; });  // it asked a world that goes now
  run_.place = {};                        // and so does what stands on it
}

// Once the data is open, and a step was tried on it.
WorkerRecord Worker::first_record() {
  auto batch = run_.training.loader->next();
  const auto data = identity_of(*run_.training.dataset, batch);
  warm_up(batch);
  return {.host = host_name("unknown"),
          .process = getpid(),
          .device = train::fingerprint_of(train::compute_options(config_.device).device,
                                          at::get_num_threads()),
          .state = "ready",
          .store = offers_.current(),
          .identity = {identity_of(config_), data, FOVEA_VERSION}};
}

// Forward and backward of a part of a batch, so that the first step as a member takes no longer
// than others: what is made on first use is there.
void Worker::warm_up(data::Batch& batch) {
  const auto& parallel = config_.parallel;
  if (parallel.dp_shard * parallel.tp * parallel.cp > 1) return;  // the whole may not fit here
  parallel::World alone;
  const parallel::DeviceMesh mesh(alone, {});
  train::MeshState state(config_, mesh, train::step_options(config_));
  state.options.slots = 0;
  state.options.sync = nullptr;  // nothing is to be added up
  auto input = train::input_of(batch, state.step_parts());
  const auto parts = std::max<int64_t>(parallel.slots, 2);
  const auto rows = std::max<int64_t>(1, batch.size() / parts);
  const auto of_pass = config_.trainer.micro_batch_size.value_or(rows);
  input.size = input.global_size = std::min(rows, of_pass);
  prepare_step(state.step_parts(), input, 0);
}

train::RunHooks Worker::hooks() {
  train::RunHooks hooks;
  hooks.change_is_due = [this](int64_t step) { return change_is_due(step); };
  if (config_.elastic.log_samples) {
    hooks.computed = [this](const data::Batch& batch, int64_t step) { log_samples(batch, step); };
  }
  hooks.timed = [this](int64_t rows, double seconds, double comm_seconds) {
    times_.add(rows, seconds, comm_seconds);
  };
  hooks.at_step = [this] { at_step(); };
  hooks.alive = [this] { pulse_.beat(); };
  hooks.may_publish = [this] { return may_publish(); };
  hooks.published = [this](const checkpoint::Published& published) { publish(published); };
  return hooks;
}

bool Worker::change_is_due(int64_t step) const {
  const auto newest = follower_->newest();
  return newest && plan_at(*newest, step).generation > taken_;
}

void Worker::at_step() {
  pulse_.beat();
  check_patience();
  is_told_to_go();
  since_ = Clock::now();
  if (since_ - told_ < kTellEvery) return;
  told_ = since_;
  if (run_.is_writer()) publish_lines();
  tell_state();
}

void Worker::check_patience() {
  const auto silent = presence_->membership().silent_for();
  if (silent <= milliseconds_of(config_.elastic.patience)) return;
  fail<EtcdAwayError>(
      "worker {}: etcd at {} was not heard of for {} s, which elastic.patience allows; the last "
      "checkpoint that it has stands: start etcd and the run again, which goes on from there",
      options_.name, client_.place().name(), silent.count() / 1000);
}

// Says so, once.
bool Worker::is_told_to_go() {
  if (StopSignals::received() == 0) return false;
  if (!is_leaving_) {
    log_info(fmt::format("worker {}: told to go; it gives what it holds first", options_.name));
    presence_->change([](WorkerRecord& worker) { worker.state = "leaving"; });
    is_leaving_ = true;
  }
  return true;
}

void Worker::leave_broken(const std::string& why) {
  log_info(fmt::format("worker {}, step {}: generation {} breaks off: {}", options_.name, run_.step,
                       members_.plan.generation, why));
  is_broken_ = true;
  lost_since_ = Clock::now();
  pulse_.set_waits([] { return true; });
  members_.abandon(why);
}

bool Worker::train() {
  auto& world = members_.world();
  pulse_.set_waits([&world] { return world.is_waiting(); });
  run_.is_stopping = members_.plan.ends == "stop";
  const bool is_over = run_.go();
  if (is_over) {
    const auto result = run_.conclude();
    end_ = result.stopped ? WorkerEnd::kStopped : WorkerEnd::kDone;
    if (run_.is_writer()) publish_end(!result.stopped);
    leave_at_end();
  }
  pulse_.set_waits([] { return true; });
  since_ = Clock::now();
  return is_over;
}

WorkerEnd Worker::run() {
  while (const auto plan = next_plan()) {
    try {
      if (!enter(*plan)) {
        if (is_leaving_ || was_removed()) return WorkerEnd::kLeft;
        continue;
      }
      if (train()) return end_;
      save_before_parking();
    } catch (const parallel::RankError& error) {
      check_patience();
      leave_broken(error.what());
    }
  }
  return end_;
}

WorkerEnd run_worker(const EtcdClient& client, const RunKeys& keys,
                     const train::TrainConfig& config, const WorkerOptions& options) {
  return Worker(client, keys, config, options).run();
}

}  // namespace fovea::elastic
