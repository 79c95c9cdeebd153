#include "fovea/train/recipe/config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/random_parts.h"
#include "fovea/models/partitionings.h"
#include "fovea/optim/schedule_check.h"
#include "fovea/parallel/partitioning_check.h"
#include "fovea/train/recipe/elastic_check.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/train/recipe/phase_configs.h"

namespace fovea::train {

namespace {

// Nothing is said of what is not there: a run that goes on needs it no more, and who opens it says
// so.
bool is_file_of_others(const std::string& path) { return is_there(path) && !is_own_run(path); }

// What would make a slot's numbers depend on the processes, or on what others compute.
void validate_slots(const TrainConfig& config, ConfigIssues& issues) {
  if (config.parallel.slots == 0) return;
  const auto refuse = [&](const char* key, const std::string& what) {
    issues.add("parallel.slots", {key},
               fmt::format("found {} with {}; set slots: 0, or leave that out",
                           config.parallel.slots, what));
  };
  if (config.data.mixup.is_on() && config.data.mixup.timm_local) {
    refuse("data.mixup.timm_local",
           "data.mixup.timm_local, which mixes the images of each process among themselves");
  }
  if (config.data.mix == "rank_groups") {
    refuse("data.mix", "data.mix: rank_groups, where each process reads one of the sets");
  }
  if (config.trainer.cache_features != "none") {
    refuse("trainer.cache_features",
           "trainer.cache_features, whose features are computed in passes of each process");
  }
}

// Where ranks meet within a pass, passes of one rank cannot overtake each other; what the others
// name has one state for all passes. `auto` then takes one at a time.
void validate_concurrent(const TrainConfig& config, ConfigIssues& issues) {
  const int64_t number = config.trainer.concurrent_passes.value_or(1);
  if (number == 1) return;
  const auto refuse = [&](const char* key, const std::string& what) {
    issues.add(
        "trainer.concurrent_passes", {key},
        fmt::format("found {} with {}; set concurrent_passes: 1, or leave that out", number, what));
  };
  const auto& device = config.device;
  const auto& parallel = config.parallel;
  const auto refuse_shares = [&](const char* key, int64_t ranks) {
    if (ranks == 1) return;
    refuse(key,
           fmt::format("{}={}, whose processes wait for each other within a pass", key, ranks));
  };
  refuse_shares("parallel.dp_shard", parallel.dp_shard);
  refuse_shares("parallel.tp", parallel.tp);
  refuse_shares("parallel.cp", parallel.cp);
  if (parallel.shard_outer != "none") {
    refuse("parallel.shard_outer", "parallel.shard_outer, whose processes wait for each other");
  }
  if (device.fp8 != "off") refuse("device.fp8", "device.fp8, whose scales follow pass by pass");
  if (device.cuda_graph == "on") {
    refuse("device.cuda_graph", "device.cuda_graph=on, which records one stream of a GPU");
  }
}

// Where a product does not see the norm in front of it, its input is rounded, elsewhere the norm's:
// these would change bits.
void validate_saved_activations(const TrainConfig& config, ConfigIssues& issues) {
  if (config.device.saved_activations == "full") return;
  const auto& parallel = config.parallel;
  const auto refuse = [&](const char* key, const std::string& what, const char* instead) {
    issues.add("device.saved_activations", {key},
               fmt::format("found {} with {}, which cuts between a norm and the product behind it, "
                           "so that another of their tensors would be rounded; set {}, or "
                           "saved_activations: full",
                           config.device.saved_activations, what, instead));
  };
  if (parallel.recompute == "attention" || parallel.recompute == "mlp") {
    refuse("parallel.recompute", "recompute: " + parallel.recompute, "recompute: block");
  }
  if (parallel.min_num_params > 0 && parallel.dp_shard != 1) {
    refuse("parallel.min_num_params", fmt::format("min_num_params: {}", parallel.min_num_params),
           "min_num_params: 0");
  }
}

}  // namespace

int64_t steps_of_a_line(const LogConfig& config, int64_t num_steps) {
  if (config.every_steps) return *config.every_steps;
  constexpr int64_t kLines = 100;
  int64_t steps = 1;
  for (const int64_t more : {2, 5, 10, 20, 50}) {
    if (num_steps >= kLines * more) steps = more;
  }
  return steps;
}

void DeviceConfig::validate(ConfigIssues& issues) const {
  if (fp8 != "off" && dtype != "bfloat16") {
    issues.add("fp8", {"dtype"},
               fmt::format("found {}, but dtype is {}: products of 8-bit floats give bfloat16, "
                           "and what is around them works in it; set device.dtype=bfloat16, "
                           "or fp8=off",
                           fp8, dtype));
  }
  struct Option {
    const char *key, *usual;
    const std::string& found;
    bool is_on() const { return found != usual; }
  };
  const Option saved{"saved_activations", "full", saved_activations};
  const Option products{"float32_products", "float32", float32_products};
  const auto refuse = [&](const Option& option, const char* other, const std::string& what) {
    issues.add(
        option.key, {other},
        fmt::format("found {}, but {}; or {}={}", option.found, what, option.key, option.usual));
  };
  for (const auto& option : {saved, products}) {
    if (option.is_on() && type == "cuda") {
      refuse(option, "type", "type is cuda, and it is for a CPU; set type=cpu");
    }
    if (option.is_on() && dtype != "float32" && dtype != "auto") {
      refuse(option, "dtype",
             fmt::format("dtype is {}, and it is for float32 alone; set dtype=float32", dtype));
    }
  }
  if (saved.is_on() && recompute_cheap == "off") {
    refuse(saved, "recompute_cheap",
           "recompute_cheap is off: kept or made again would no longer be the same bits; set "
           "recompute_cheap=auto");
  }
}

void Int8Config::validate(ConfigIssues& issues) const {
  if (ranges.empty() || activations == "calibrated") return;
  issues.add("ranges", {"activations"},
             fmt::format("found {}, but activations is {}, which takes none; set "
                         "int8.activations=calibrated, or leave ranges out",
                         ranges, activations));
}

void InitConfig::validate(ConfigIssues& issues) const {
  if (optimizer.empty()) return;
  if (weights.empty() && is_file_of_others(optimizer)) {
    issues.add("optimizer", {"weights"},
               "found a file, but init.weights names none, so that its moments would belong to "
               "other weights; set init.weights to the same file");
  } else if (part != "all" || skip_head) {
    issues.add("optimizer", {"part", "skip_head"},
               fmt::format("found a file together with {}, which leaves parameters as initialised: "
                           "a run goes on with all of its own; leave one of them out",
                           skip_head ? "skip_head" : "part: " + part));
  }
}

void TrainerConfig::validate(ConfigIssues& issues) const {
  if (!max_epochs && !max_steps) {
    issues.add("max_epochs", {"max_steps"},
               "found neither max_epochs nor max_steps; expected one of them");
  }
  const bool is_frozen = std::find(freeze.begin(), freeze.end(), "backbone") != freeze.end();
  if (cache_features != "none" && !is_frozen) {
    issues.add(
        "cache_features", {"freeze"},
        fmt::format("found {}, but the backbone is trained, so that its features change with "
                    "every step; set freeze: [backbone], or cache_features: none",
                    cache_features));
  }
}

namespace {

// Where the length follows from the data, as it does with batches that change their size, Trainer
// does it once that is open. Phases have lengths of their own.
void check_schedule(const TrainConfig& config, ConfigIssues& issues) {
  if (!config.trainer.max_steps || !config.phases.empty()) return;
  if (!config.data.batch_schedule.empty()) return;
  ConfigIssues of_schedule;
  optim::check_run_steps(config.schedule, *config.trainer.max_steps, of_schedule);
  issues.join("schedule", of_schedule, {"trainer.max_steps"});
}

}  // namespace

void TrainConfig::validate(ConfigIssues& issues) const {
  validate_phases(*this, issues);
  validate_slots(*this, issues);
  validate_concurrent(*this, issues);
  validate_saved_activations(*this, issues);
  check_schedule(*this, issues);
  check_adaptive_batch(*this, issues);
  if (launch.elastic) check_elastic(*this, "launch.elastic", issues);
  if (parallel.param_dtype == "bfloat16" && device.dtype != "bfloat16") {
    issues.add(
        "parallel.param_dtype", {"device.dtype"},
        fmt::format("found bfloat16, but device.dtype is {}, so that products would be of two "
                    "dtypes; set device.dtype=bfloat16, or param_dtype=float32",
                    device.dtype));
  }
  if (parallel.tp * parallel.cp > 1) {
    parallel::check_partitioning(models::partitioning_of(model), parallel, issues);
  }
  const auto& kind = trainer.cache_features;
  if (kind == "none") return;
  if (data.mixup.is_on()) {
    issues.add("trainer.cache_features", {"data.mixup"},
               fmt::format("found {}, but data.mixup mixes other images in every epoch; turn mixup "
                           "off, or set cache_features: none",
                           kind));
    return;
  }
  const auto random = data::random_parts(data);
  if (kind == "first_epoch" || random.empty()) return;
  issues.add("trainer.cache_features",
             {"data.train.transforms", "data.train.sets", "data.train.format",
              "data.adaptive_patching", "data.mixup"},
             fmt::format("found exact, but data.train gives another sample in every epoch, through "
                         "{}; leave that out, set first_epoch to keep what is drawn for the first "
                         "epoch, or none to run the backbone in every step",
                         fmt::join(random, ", ")));
}

void TrainConfig::check() const { resolve_phases(*this); }

}  // namespace fovea::train

namespace fovea {

template struct detail::BoundSection<train::TrainConfig>;

}  // namespace fovea
