#include "fovea/train/state/concurrent_start.h"

#include <ATen/Parallel.h>

#include <string>

#include "fovea/core/error.h"
#include "fovea/train/evaluate/features.h"
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

}  // namespace

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
  constexpr int64_t kMostOnDevice = 4;
  const auto& device = options.compute.device;
  return std::make_unique<ConcurrentPasses>(
      number.value_or(0), device.is_cuda() ? kMostOnDevice : at::get_num_threads(), device);
}

}  // namespace fovea::train
