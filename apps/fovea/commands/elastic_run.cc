// fovea elastic scheduler RECIPE|RUN_DIR [a.b=c ...]
// fovea elastic worker --etcd URL --run NAME
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/elastic.h"
#include "apps/fovea/elastic_launch.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "apps/fovea/ranks.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/host_name.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/elastic/worker.h"
#include "fovea/train/recipe/run_folder.h"

namespace fovea::app {
namespace {

struct SchedulerArguments {
  std::string source;
  std::vector<std::string> overrides;
  EtcdOptions etcd;
  std::string name;
  bool json = false;
};

void run_scheduler(const SchedulerArguments& arguments) {
  note_stop_signals_for_good();
  const auto config = train::load_any_config(arguments.source, arguments.overrides);
  const bool is_given = !arguments.etcd.etcd.empty() || getenv(elastic::kEtcdVariable) != nullptr;
  std::optional<elastic::EtcdPlace> etcd;
  if (is_given) {
    etcd = elastic::etcd_place(arguments.etcd.etcd, arguments.etcd.ca, arguments.etcd.user);
  }
  elastic::RunHost host(config, etcd, arguments.name);
  if (arguments.json) {
    say_as_is("{}\n", json_text(nlohmann::ordered_json{{"etcd", host.place().etcd},
                                                       {"run", host.place().run}}));
  } else {
    say("run {}: workers come with\n  fovea elastic worker --etcd {} --run {}\n", host.place().run,
        host.place().etcd, host.place().run);
  }
  std::fflush(stdout);  // who started this waits for it
  end_elastic_run(config, host_until_end(host, [] { return false; }), arguments.json);
}

struct WorkerArguments {
  RunOptions run;
  std::string name;
  std::vector<std::string> overrides;
};

std::string own_name() {
  return fmt::format("{}-{}", elastic::run_name_of(host_name("worker")), getpid());
}

// As the scheduler has left it in etcd, with what is this machine's own.
train::TrainConfig config_of(elastic::EtcdClient& client, const elastic::RunKeys& keys,
                             const std::vector<std::string>& overrides) {
  const auto value = client.get(keys.run_record());
  if (!value) fail<ConfigError>("the run '{}' of this etcd has no recipe", keys.run());
  const auto record = elastic::from_json<elastic::RunRecord>(value->value, keys.run_record());
  auto config = parse_config<train::TrainConfig>(record.recipe, "the run's recipe", overrides);
  if (config.run.dir == record.dir) return config;
  fail<ConfigError>("run.dir: found {}; expected the run's own, {}, which all of its workers see",
                    config.run.dir, record.dir);
}

void run_worker(const WorkerArguments& arguments) {
  note_stop_signals_for_good();
  OpenRun run(arguments.run);
  const auto config = config_of(run.client, run.keys, arguments.overrides);
  set_log_verbose(true);
  const auto end =
      elastic::run_worker(run.client, run.keys, config,
                          {.name = arguments.name.empty() ? own_name() : arguments.name,
                           .progress = ProgressLine::Mode::kAuto,
                           .device_backend = choose_device(config.device.type, {})});
  const char* const text = end == elastic::WorkerEnd::kDone      ? "the run is done"
                           : end == elastic::WorkerEnd::kStopped ? "the run has stopped"
                                                                 : "it was told to go";
  log_info(fmt::format("worker ends: {}", text));
}

}  // namespace

void add_elastic_scheduler(Command group) {
  auto command = group.add_command(
      "scheduler", "Begin an elastic run, or go on with one: say who computes what, until it ends");
  auto arguments = std::make_shared<SchedulerArguments>();
  command.add_option("source", arguments->source, "recipe (YAML) or run folder")
      .required()
      .type_name("RECIPE|RUN_DIR");
  add_overrides(command, arguments->overrides, "elastic.min_workers=2");
  add_etcd_options(command, arguments->etcd);
  command
      .add_option("--name", arguments->name,
                  "of the run in etcd; by default that of its folder (run.dir)")
      .type_name("NAME");
  command.add_flag("--json", arguments->json,
                   "print one JSON object a line: {etcd, run} at once, the result at the end");
  command.examples(
      {"fovea elastic scheduler recipes/fashion_mnist/vit.yaml",
       "fovea elastic scheduler recipes/fashion_mnist/vit.yaml parallel.slots=8 --etcd "
       "http://10.0.0.1:2379",
       "fovea elastic scheduler runs/vit"});
  command.callback([arguments] { run_scheduler(*arguments); });
}

void add_elastic_worker(Command group) {
  auto command = group.add_command(
      "worker", "Take part in an elastic run, as soon as it has a place, until it ends");
  auto arguments = std::make_shared<WorkerArguments>();
  add_run_options(command, arguments->run);
  command
      .add_option("--name", arguments->name,
                  "of this worker; by default its machine's and the number of the process")
      .type_name("WORKER");
  add_overrides(command, arguments->overrides, "device.threads=4");
  command.examples({"fovea elastic worker --run runs/vit",
                    "fovea elastic worker --etcd http://10.0.0.1:2379 --run vit --name gpu-3"});
  command.callback([arguments] { run_worker(*arguments); });
}

}  // namespace fovea::app
