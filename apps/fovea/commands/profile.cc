// fovea profile RECIPE --out DIR [--local-batch L] [--search static|dynamic] [a.b=c ...]
#include "apps/fovea/commands/profile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/device_profiler.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "apps/fovea/profile_nodes.h"
#include "apps/fovea/profile_parts.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/progress_line.h"
#include "fovea/core/write_error.h"
#include "fovea/elastic/profile/profile_sync.h"
#include "fovea/elastic/profile/recipe_profile.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/train/bench/machine.h"
#include "fovea/train/recipe/model_identity.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/phases.h"

namespace fovea::app {
namespace {

using elastic::ProfileSet;

struct ProfileArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string out;
  std::optional<int64_t> local_batch;
  std::string search = "static";
  double pause = 0;
  std::vector<std::string> devices;
  bool json = false;
};

// Of several trainings the first one; processes are started here, or by a launcher.
train::TrainConfig load_recipe(const ProfileArguments& arguments) {
  auto config = train::load_any_config(arguments.recipe, arguments.overrides);
  if (!config.phases.empty()) config = train::resolve_phases(config).front().config;
  config.launch = {.timeout = config.launch.timeout};
  return config;
}

void check_given(const ProfileArguments& arguments) {
  const auto missing = arguments.recipe.empty() ? "RECIPE" : "--out";
  if (!arguments.recipe.empty() && !arguments.out.empty()) return;
  fail<Error>(
      "fovea profile: {} is missing, as in: fovea profile recipes/fashion_mnist/vit.yaml --out "
      "profiles; `fovea profile --help` tells more",
      missing);
}

// Told before anything is measured.
void check_folder(const std::string& path) {
  const auto devices = std::filesystem::path(path) / "devices";
  std::error_code error;
  std::filesystem::create_directories(devices, error);
  if (!error && access(devices.c_str(), W_OK) == 0) return;
  fail<WriteError>("--out: {}: cannot be written: {}; choose another folder", path,
                   error ? error.message() : std::strerror(errno));
}

// What the folder has of other devices, of the same model and dtype.
std::optional<ProfileSet> profiles_before(const ProfileArguments& arguments,
                                          const train::TrainConfig& config,
                                          const std::vector<std::string>& devices) {
  if (!elastic::has_profiles(arguments.out)) return {};
  auto before = elastic::read_profiles(arguments.out);
  const auto model = train::model_identity(config.model);
  const auto dtype = on_device(config, devices.front()).device.dtype;
  const auto& there = before.devices.front();
  if (there.model == model && there.dtype == dtype) return before;
  fail<ConfigError>(
      "--out: {} has profiles of '{}' in {}, and the recipe is of '{}' in {}; choose "
      "another folder",
      arguments.out, there.model, there.dtype, model, dtype);
}

ProfileSet joined(std::optional<ProfileSet> before, ProfileSet now) {
  if (!before) return now;
  for (auto& device : before->devices) {
    if (now.find("", device.fingerprint) == nullptr) now.devices.push_back(std::move(device));
  }
  auto communication = elastic::joined_communication(
      {.points = std::move(before->communication), .measured = before->communication_measured},
      {.points = std::move(now.communication), .measured = now.communication_measured});
  now.communication = std::move(communication.points);
  now.communication_measured = std::move(communication.measured);
  return now;
}

ProfileSet measured_set(const train::TrainConfig& config, const ProfilerOptions& options,
                        const std::vector<std::string>& devices) {
  const auto own = on_device(config, devices.front());
  ProfileSet set{.model = train::model_identity(config.model)};
  set.bucket_megabytes = elastic::bucket_megabytes(own);
  const auto launch = parallel::launch_from(parallel::process_environment());
  if (launch.world_size > 1) {
    profile_on_nodes(config, options, launch, set);
  } else {
    set.devices = profile_devices(config, options);
    set.communication = profile_collectives(config, options, set.bucket_megabytes);
  }
  set.communication_measured = train::timestamp_now();
  return set;
}

void tell_result(const ProfileArguments& arguments, const ProfileSet& set, double seconds) {
  const auto missing = elastic::missing_profiles(set, std::nullopt);
  if (arguments.json) {
    auto object = profiles_json(set);
    object["seconds"] = seconds;
    object["missing"] = missing;
    return say_as_is("{}\n", json_text(object));
  }
  print_profiles(set);
  for (const auto& what : missing) say("not measured: {}\n", what);
  say("{}: written in {:.0f} s; `fovea profile show {} --out profiles.html` draws it\n",
      arguments.out, seconds, arguments.out);
}

void run(const ProfileArguments& arguments) {
  check_given(arguments);
  const auto config = load_recipe(arguments);
  if (const auto part = own_profile_part()) return run_profile_part(*part, config);
  const auto start = std::chrono::steady_clock::now();
  const auto launch = parallel::launch_from(parallel::process_environment());
  const bool is_quiet = arguments.json || launch.rank > 0;
  ProgressLine progress(is_quiet ? ProgressLine::Mode::kSilent : ProgressLine::Mode::kAuto);
  const ProfilerOptions options{
      .devices = arguments.devices,
      .local_batch = arguments.local_batch,
      .search = elastic::search_of(arguments.search),
      .pause = arguments.pause,
      .progress = [&](const std::string& what) { progress.update("profile: " + what); },
      .say =
          [&](const std::string& line) {
            if (!is_quiet) progress.print(line);
          }};
  const auto devices = devices_of(config, options);
  check_folder(arguments.out);
  auto before = profiles_before(arguments, config, devices);
  auto set = joined(std::move(before), measured_set(config, options, devices));
  progress.clear();
  if (launch.local_rank == 0) elastic::write_profiles(set, arguments.out);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (launch.rank == 0) tell_result(arguments, set, took.count());
}

void add_measuring(Command group, const std::shared_ptr<ProfileArguments>& arguments) {
  group.add_option("recipe", arguments->recipe, "what is profiled: a recipe or a run folder")
      .type_name("RECIPE|RUN_DIR");
  add_overrides(group, arguments->overrides, "device.threads=1");
  group
      .add_option("--out", arguments->out,
                  "folder of profiles to write; what it has of other devices stays")
      .type_name("DIR");
  group
      .add_option("--local-batch", arguments->local_batch,
                  "largest batch of a device that is looked at; by default the recipe's batch")
      .in_range(1, elastic::kMaxLocalBatch)
      .type_name("L");
  group
      .add_option("--search", arguments->search,
                  "batches that are measured: powers of two up to the largest, or as long as "
                  "larger ones are faster, with more of them where times bend")
      .one_of({"static", "dynamic"})
      .show_default();
  group.add_option("--pause", arguments->pause, "seconds between two measurements, to cool down")
      .non_negative()
      .type_name("S")
      .show_default();
  group
      .add_option("--devices", arguments->devices,
                  "cpu, cuda:0 ...: which to measure; by default the recipe's. Of one kind one is "
                  "enough")
      .delimiter(',')
      .one_word()
      .type_name("DEVICE,...");
  group.add_flag("--json", arguments->json,
                 "print one JSON object on standard output and nothing else there");
  group.callback([arguments] { run(*arguments); });
}

}  // namespace

void add_profile(Command app) {
  auto group = app.add_command("profile",
                               "Measure what steps of a recipe take on kinds of devices and "
                               "between them, for `fovea elastic "
                               "solve`");
  add_measuring(group, std::make_shared<ProfileArguments>());
  group.examples({"fovea profile recipes/fashion_mnist/vit.yaml --out profiles",
                  "fovea profile recipes/fashion_mnist/vit.yaml device.threads=1 --out profiles",
                  "fovea profile show profiles --out profiles.html"});
  add_profile_show(group);
  add_profile_sync(group);
}

}  // namespace fovea::app
