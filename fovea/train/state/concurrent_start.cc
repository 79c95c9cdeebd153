#include "fovea/train/state/concurrent_start.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/solve/concurrent_choice.h"
#include "fovea/train/bench/machine.h"
#include "fovea/train/evaluate/features.h"
#include "fovea/train/recipe/model_identity.h"
#include "fovea/train/step/passes.h"

namespace fovea::train {
namespace {

// Empty: they can be. More than a recipe shows by itself (TrainConfig::validate).
std::string why_not_concurrent(const TrainConfig& config, const models::Model& model,
                               const StepOptions& options) {
  if (meets_in_passes(options)) return "the processes of the run wait for each other within a pass";
  if (config.device.fp8 != "off") return "device.fp8 has scales that follow pass by pass";
  if (config.device.cuda_graph == "on") return "device.cuda_graph=on records one stream of a GPU";
  if (has_frozen_backbone(config.trainer, model)) {
    return "the features of a frozen backbone come one pass after another";
  }
  return {};
}

// What the recipe shows by itself.
bool refuses_concurrent(TrainConfig recipe) {
  recipe.trainer.concurrent_passes = 2;
  ConfigIssues issues;
  recipe.validate(issues);
  return std::any_of(issues.all().begin(), issues.all().end(),
                     [](const auto& issue) { return issue.key == "trainer.concurrent_passes"; });
}

int64_t most_on(c10::Device device) {
  constexpr int64_t kMostOnDevice = 4;
  return device.is_cuda() ? kMostOnDevice : at::get_num_threads();
}

void check_profiled(const elastic::ProfileSet& profiles, const TrainConfig& config,
                    const StepOptions& options) {
  constexpr size_t kShown = 200;
  const auto& there = profiles.devices.front();
  const auto model = model_identity(config.model);
  const auto dtype = dtype_name(options.compute.dtype);
  if (there.model == model && there.dtype == dtype) return;
  fail<DataError>(
      "elastic.profile_dir: {} has profiles of '{}' in {}, and the run is of '{}' in {}; profile "
      "the recipe, or set trainer.concurrent_passes to a number",
      profiles.source, printable_start(there.model, kShown), printable_start(there.dtype), model,
      dtype);
}

// Says what it chooses, where that is another number than before.
class ProfileChoice {
 public:
  explicit ProfileChoice(elastic::DeviceProfile profile) : profile_(std::move(profile)) {}

  int64_t operator()(int64_t count, int64_t samples) {
    const auto [known, is_new] = known_.try_emplace({count, samples}, 1);
    if (!is_new) return known->second;
    known->second = elastic::best_concurrent(profile_, {.number = count, .batch = samples},
                                             ConcurrentPasses::kLeastGain);
    if (std::exchange(last_, known->second) == known->second) return last_;
    log_info(fmt::format(
        "trainer.concurrent_passes: {} at once of {} passes of {} samples, by the profile of '{}'",
        last_, count, samples, profile_.fingerprint));
    return last_;
  }

 private:
  elastic::DeviceProfile profile_;
  std::map<std::pair<int64_t, int64_t>, int64_t> known_;
  int64_t last_ = 0;
};

// Empty: no profile says anything of it.
ConcurrentPasses::Choose choice_by_profile(const TrainConfig& config, const StepOptions& options) {
  const auto& dir = config.elastic.profile_dir;
  if (dir.empty()) return {};
  const auto kind = fingerprint_of(options.compute.device, at::get_num_threads());
  if (elastic::has_profiles(dir)) {  // a worker elsewhere may not see them
    const auto profiles = elastic::read_profiles(dir);
    check_profiled(profiles, config, options);
    const auto* const profile = profiles.find("", kind);
    if (profile != nullptr && elastic::has_concurrent(*profile)) return ProfileChoice(*profile);
  }
  log_info(fmt::format(
      "trainer.concurrent_passes: {} has no passes at once of '{}'; the first steps try them", dir,
      kind));
  return {};
}

}  // namespace

int64_t most_concurrent(const TrainConfig& recipe, const models::Model& model,
                        const StepOptions& options) {
  const bool can_be =
      why_not_concurrent(recipe, model, options).empty() && !refuses_concurrent(recipe);
  return can_be ? most_on(options.compute.device) : 1;
}

std::unique_ptr<ConcurrentPasses> make_concurrent(const TrainConfig& config,
                                                  const models::Model& model,
                                                  const StepOptions& options) {
  const auto number = config.trainer.concurrent_passes;
  if (number == 1) return nullptr;
  const auto reason = why_not_concurrent(config, model, options);
  if (!reason.empty() && !number) return nullptr;
  if (!reason.empty()) {
    fail<ConfigError>("trainer.concurrent_passes: found {}, but {}; set it to 1", *number, reason);
  }
  const auto& device = options.compute.device;
  const auto most = most_on(device);
  if (number) return std::make_unique<ConcurrentPasses>(*number, most, device);
  if (auto choose = choice_by_profile(config, options)) {
    return std::make_unique<ConcurrentPasses>(std::move(choose), most, device);
  }
  return std::make_unique<ConcurrentPasses>(0, most, device);
}

}  // namespace fovea::train
