#include "fovea/elastic/run_host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/elastic/control/key_mirror.h"
#include "fovea/elastic/control/status.h"
#include "fovea/elastic/device_adviser.h"
#include "fovea/elastic/journal.h"
#include "fovea/elastic/worker.h"
#include "fovea/train/recipe/elastic_check.h"

namespace fovea::elastic {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 100;
constexpr std::chrono::seconds kLastPatience{10};  // for workers to end once the run has
constexpr std::chrono::milliseconds kLookAgain{200};

const train::TrainConfig& checked(const train::TrainConfig& config) {
  ConfigIssues issues;
  train::check_elastic(config, "launch.elastic", issues);
  std::string text;
  for (const auto& issue : issues.all())
    text += fmt::format("\n  {}: {}", issue.key, issue.message);
  if (!text.empty())
    fail<ConfigError>("the recipe cannot be trained by workers that change:{}", text);
  return config;
}

PlanOptions plan_options(const train::TrainConfig& config) {
  const auto& parallel = config.parallel;
  return {.min_workers = config.elastic.min_workers,
          .max_workers = config.elastic.max_workers,
          .mesh = {.dp_replicate = 1,
                   .dp_shard = parallel.dp_shard,
                   .cp = parallel.cp,
                   .tp = parallel.tp},
          .dp_shard_follows = config.elastic.dp_shard == "auto",
          .global_batch = config.data.global_batch_size,
          .slots = parallel.slots,
          // Who meets others within passes waits for them there.
          .shares_by_speed =
              config.elastic.shares == "speed" && (parallel.dp_shard == 1 || parallel.zero == 1),
          .shares_gain = config.elastic.shares_gain,
          .shares_after = config.elastic.shares_after};
}

}  // namespace

std::string run_name_of(const std::string& run_dir) {
  const auto path = fs::absolute(run_dir).lexically_normal();
  auto name = (path.has_filename() ? path : path.parent_path()).filename().string();
  for (auto& c : name) {
    const bool is_fit =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    if (!is_fit) c = '-';
  }
  return name.substr(0, kLongestName);
}

RunHost::RunHost(const train::TrainConfig& config, const std::optional<EtcdPlace>& etcd,
                 const std::string& name)
    : folder_(checked(config), train::FolderRole::kShared),
      keys_(name.empty() ? run_name_of(config.run.dir) : name) {
  const auto dir = fs::absolute(folder_.path()).lexically_normal();
  if (!etcd) own_etcd_ = std::make_unique<LocalEtcd>(LocalEtcdOptions{.folder = dir / "etcd"});
  client_ = std::make_unique<EtcdClient>(etcd ? *etcd : own_etcd_->place());
  auto of_workers = config;
  of_workers.run.dir = dir.string();
  // From wherever a worker runs that schedules once this process has gone.
  for (auto* path : {&of_workers.elastic.profile_dir, &of_workers.elastic.gpu_cluster_info}) {
    if (!path->empty()) *path = fs::absolute(*path).lexically_normal().string();
  }
  RunRecord record{.dir = dir.string(),
                   .recipe = dump_config(of_workers),
                   .identity = {identity_of(config), "", FOVEA_VERSION},
                   .options = plan_options(config)};
  scheduler_ = std::make_unique<Scheduler>(
      *client_, keys_, std::move(record),
      SchedulerOptions{.lease_seconds = config.elastic.lease,
                       .last_generation = last_generation(dir),
                       .patience = std::chrono::milliseconds(
                           static_cast<int64_t>(1000 * config.elastic.patience)),
                       .adviser = make_adviser(config.elastic, config.trainer.concurrent_passes)});
  folder_.write_config(config);
  place_ = {.etcd = fmt::format("{}", fmt::join(client_->place().endpoints, ",")),
            .run = keys_.run()};
  write_run_place(dir.string(), place_);
}

std::string RunHost::run(const std::function<bool()>& is_told_to_end) {
  auto end = scheduler_->run(is_told_to_end);
  if (!end.empty() && own_etcd_) wait_for_workers();
  return end;
}

// They hear of the end from the etcd that goes with this process.
void RunHost::wait_for_workers() {
  const KeyMirror workers(*client_, with_prefix(keys_.workers()));
  const auto late = std::chrono::steady_clock::now() + kLastPatience;
  while (std::chrono::steady_clock::now() < late) {
    const auto state = workers.state();
    if (state.values.empty()) return;
    workers.wait(state.number, kLookAgain);
  }
}

void RunHost::stop() {
  Request request;
  request.kind = "stop";
  ask(*client_, keys_, request);
}

}  // namespace fovea::elastic
