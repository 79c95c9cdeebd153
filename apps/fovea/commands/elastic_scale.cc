// fovea elastic scale --workers N|--add W|--remove W|--global-batch B [--at-step S]
// fovea elastic stop
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/elastic.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/elastic/control/status.h"

namespace fovea::app {
namespace {

constexpr int64_t kNotGiven = -1;
constexpr int64_t kMostSteps = int64_t{1} << 53;

struct ScaleArguments {
  RunOptions run;
  int64_t workers = kNotGiven;
  std::string add;
  std::string remove;
  int64_t global_batch = kNotGiven;
  int64_t at_step = kNotGiven;
  bool json = false;
};

elastic::Request request_of(const ScaleArguments& arguments) {
  elastic::Request request;
  request.at_step = arguments.at_step;
  int given = 0;
  const auto take = [&](bool is_given, const char* kind, const std::string& worker) {
    if (!is_given) return;
    ++given;
    request.kind = kind;
    request.worker = worker;
  };
  take(arguments.workers != kNotGiven, "scale", "");
  take(!arguments.add.empty(), "add", arguments.add);
  take(!arguments.remove.empty(), "remove", arguments.remove);
  take(arguments.global_batch != kNotGiven, "batch", "");
  if (given != 1) {
    fail("give one of --workers N, --add WORKER, --remove WORKER and --global-batch SAMPLES");
  }
  if (request.kind == "scale") request.workers = arguments.workers;
  if (request.kind == "batch") request.global_batch = arguments.global_batch;
  return request;
}

std::string text_of(const elastic::Request& request) {
  if (request.kind == "stop") return "that it stops, with its state saved";
  if (request.kind == "add") return "that " + request.worker + " joins";
  if (request.kind == "remove") return "that " + request.worker + " leaves";
  if (request.kind == "batch")
    return fmt::format("for batches of {}", counted(request.global_batch, "sample"));
  return request.workers == 0 ? "that all workers join that come"
                              : fmt::format("for {}", counted(request.workers, "worker"));
}

void ask_for(const RunOptions& options, const elastic::Request& request, bool as_json) {
  OpenRun run(options);
  const auto passed = elastic::ask(run.client, run.keys, request);
  if (as_json) {
    say_as_is("{}\n",
              json_text(nlohmann::ordered_json{{"run", run.keys.run()},
                                               {"asked", request.kind},
                                               {"at_step", passed < 0 ? request.at_step : -1}}));
    return;
  }
  const auto when =
      request.at_step < 0 || passed >= 0 ? "" : fmt::format(" at step {}", request.at_step);
  say("run {}: asked {}{}\n", run.keys.run(), text_of(request), when);
  if (passed >= 0)
    say("  step {} is passed (the run is at {}): at once\n", request.at_step, passed);
}

}  // namespace

void add_elastic_scale(Command group) {
  auto command = group.add_command("scale",
                                   "Ask a run for more or fewer workers, or another batch, at once "
                                   "or at a step; it does not wait for them");
  auto arguments = std::make_shared<ScaleArguments>();
  command
      .add_option("--workers", arguments->workers,
                  "members that the run has at most, as long as nothing else is asked for; others "
                  "wait; 0: all that come")
      .in_range(0, 1 << 20)
      .type_name("N");
  command.add_option("--add", arguments->add, "one that waits is to be a member")
      .type_name("WORKER");
  command
      .add_option("--remove", arguments->remove,
                  "one is to give what it holds and end, with exit code 0")
      .type_name("WORKER");
  command
      .add_option("--global-batch", arguments->global_batch,
                  "samples of each batch from then on, as long as nothing else is asked for")
      .in_range(1, int64_t{1} << 32)
      .type_name("SAMPLES");
  command
      .add_option(
          "--at-step", arguments->at_step,
          "the change takes place there; a death before it does not wait; by default at once")
      .in_range(0, kMostSteps)
      .type_name("STEP");
  add_run_options(command, arguments->run);
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea elastic scale --run runs/vit --workers 4",
                    "fovea elastic scale --run vit --etcd http://10.0.0.1:2379 --remove gpu-3",
                    "fovea elastic scale --run vit --global-batch 1024 --at-step 5000"});
  command.callback(
      [arguments] { ask_for(arguments->run, request_of(*arguments), arguments->json); });
}

void add_elastic_stop(Command group) {
  auto command = group.add_command(
      "stop", "Ask a run to save its state and end; the same recipe goes on with it");
  auto arguments = std::make_shared<ScaleArguments>();
  command.add_option("--at-step", arguments->at_step, "after that step; by default the next one")
      .in_range(0, kMostSteps)
      .type_name("STEP");
  add_run_options(command, arguments->run);
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples(
      {"fovea elastic stop --run runs/vit", "fovea elastic stop --run vit --at-step 5000"});
  command.callback([arguments] {
    elastic::Request request;
    request.kind = "stop";
    request.at_step = arguments->at_step;
    ask_for(arguments->run, request, arguments->json);
  });
}

}  // namespace fovea::app
