// fovea train RECIPE|RUN_DIR [a.b=c ...]
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/elastic_launch.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "apps/fovea/ranks.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/stop_signals.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/phases.h"
#include "fovea/train/trainer.h"

namespace fovea::app {
namespace {

struct TrainArguments {
  std::string source;
  std::vector<std::string> overrides;
  bool json = false;
};

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

// "22 steps, 1.00 epochs; loss 0.61, top1 83.2"; without an evaluation its first part.
std::string length_text(const train::FitResult& result) {
  const auto text = fmt::format("{}, {:.2f} epochs", counted(result.step, "step"), result.epoch);
  return result.last_eval.empty() ? text : text + "; " + metrics_text(result.last_eval);
}

nlohmann::json to_json(const train::FitResult& result) {
  return {{"run_dir", result.run_dir},
          {"step", result.step},
          {"epoch", result.epoch},
          {"stopped", result.stopped},
          {"eval", result.last_eval}};
}

void print_result(const train::FitResult& result, bool as_json) {
  if (as_json) {
    say_as_is("{}\n", json_text(to_json(result)));
    return;
  }
  if (result.stopped) {
    say("stopped at step {}; the state is saved. Go on with: fovea train {}\n", result.step,
        result.run_dir);
    return;
  }
  say("done: {}\n", length_text(result));
  say("  run folder  {}\n  report      {}/report.html\n  weights     {}/weights.safetensors\n",
      result.run_dir, result.run_dir, result.run_dir);
}

// The run as a whole: where it stands is where its last phase stands.
void print_phases(const std::string& run_dir, const std::vector<train::PhaseResult>& phases,
                  bool as_json) {
  auto whole = phases.back().fit;
  whole.run_dir = run_dir;
  if (as_json) {
    auto object = to_json(whole);
    for (const auto& phase : phases) {
      object["phases"].push_back(to_json(phase.fit));
      object["phases"].back()["name"] = phase.name;
    }
    say_as_is("{}\n", json_text(object));
    return;
  }
  for (const auto& phase : phases) {
    say("phase {}: {}\n", phase.name, length_text(phase.fit));
  }
  print_result(whole, false);
}

bool run_phases(const train::TrainConfig& config, ProgressLine::Mode progress, bool as_json,
                parallel::World& world) {
  const auto phases = train::fit_phases(config, progress, world);
  if (world.is_first()) print_phases(config.run.dir, phases, as_json);
  return phases.back().fit.stopped;
}

bool run_once(const train::TrainConfig& config, ProgressLine::Mode progress, bool as_json,
              parallel::World& world) {
  const auto result = train::Trainer(config, progress, world).fit();
  if (world.is_first()) print_result(result, as_json);
  return result.stopped;
}

void run(const TrainArguments& arguments) {
  note_stop_signals_for_good();
  const auto progress = arguments.json ? ProgressLine::Mode::kSilent : ProgressLine::Mode::kAuto;
  const auto config = train::load_any_config(arguments.source, arguments.overrides);
  if (config.launch.elastic) return train_elastically(config, arguments.json);
  run_in_world(config, [&](parallel::World& world) {
    const bool is_stopped = config.phases.empty()
                                ? run_once(config, progress, arguments.json, world)
                                : run_phases(config, progress, arguments.json, world);
    if (is_stopped) throw ExitRequest{static_cast<int>(ExitCode::kStopped)};
  });
}

}  // namespace

void add_train(Command app) {
  auto command = app.add_command("train", "Train a model, or go on with a run");
  auto arguments = std::make_shared<TrainArguments>();
  command.add_option("source", arguments->source, "recipe (YAML) or run folder")
      .required()
      .type_name("RECIPE|RUN_DIR");
  add_overrides(command, arguments->overrides, "optim.lr=3e-4");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea train recipes/fashion_mnist/vit.yaml",
                    "fovea train recipes/fashion_mnist/vit.yaml optim.lr=3e-4 run.dir=runs/low_lr",
                    "fovea train runs/low_lr"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
