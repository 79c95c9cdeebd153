#include "fovea/train/recipe/elastic_check.h"

#include <fmt/format.h>

#include "fovea/data/datasets/mix.h"
#include "fovea/elastic/solve/adaptive_batch.h"
#include "fovea/optim/schedule_check.h"

namespace fovea::train {

void check_elastic(const TrainConfig& config, std::string_view beside, ConfigIssues& issues) {
  if (!config.phases.empty()) {
    issues.add("phases", {beside},
               fmt::format("found {} in an elastic run, which is one training; run each phase by "
                           "itself, with init.weights of the one before",
                           config.phases.size()));
  }
  if (config.log.trace_steps > 0) {
    issues.add("log.trace_steps", {beside},
               fmt::format("found {} in an elastic run, whose ranks change; set it to 0",
                           config.log.trace_steps));
  }
  const auto& data = config.data;
  const bool is_mix = data.train && data.train->get_if<data::MixConfig>() != nullptr;
  if (data.drop_last && (!is_mix || data.mix != "exact")) {
    issues.add("data.drop_last", {beside},
               "found true in an elastic run, whose batches may change their size, and with it "
               "the samples that are left out; set data.drop_last=false");
  }
  if (is_mix && data.mix == "rank_groups") {
    issues.add("data.mix", {beside},
               "found rank_groups in an elastic run, where the samples would follow from the "
               "number of workers; use exact, cycle_to_largest or weights");
  }
  if (data.mixup.is_on() && data.mixup.timm_local) {
    issues.add("data.mixup.timm_local", {beside},
               "found true in an elastic run, where the partners of samples would follow from the "
               "number of workers; set it to false");
  }
  if (config.trainer.cache_features != "none") {
    issues.add("trainer.cache_features", {beside},
               fmt::format("found {} in an elastic run, where a worker that joins has no features; "
                           "set cache_features: none",
                           config.trainer.cache_features));
  }
  const auto* segmentation = config.task.get_if<SegmentationConfig>();
  if (segmentation != nullptr && !segmentation->loss.adds_up()) {
    issues.add("task.loss", {beside},
               "found a Dice over the whole batch in an elastic run, whose loss is the sum over "
               "its samples, however they are split; set loss.batch: false, and another loss than "
               "ucf_dice_bce");
  }
}

namespace {

// The key that asks for it.
std::string adaptive_key(const TrainConfig& config) {
  return config.elastic.metric == "noise" ? "elastic.metric" : "elastic.similarity_target";
}

void check_bounds(const TrainConfig& config, ConfigIssues& issues) {
  const auto& elastic = config.elastic;
  const int64_t batch = config.data.global_batch_size;
  const int64_t lower = elastic.batch_size_lower_bound.value_or(batch);
  if (!elastic.batch_size_upper_bound) {
    issues.add("elastic.batch_size_upper_bound", {adaptive_key(config)},
               fmt::format("is not given; the batch follows {}, so give the largest one that the "
                           "run may come to, or set elastic.enable_adjust=false",
                           adaptive_key(config)));
  } else if (batch < lower || batch > *elastic.batch_size_upper_bound) {
    issues.add("data.global_batch_size",
               {"elastic.batch_size_lower_bound", "elastic.batch_size_upper_bound"},
               fmt::format("found {}, which the run begins with; expected one between the bounds "
                           "of its batch, {} and {}",
                           batch, lower, *elastic.batch_size_upper_bound));
  }
  const int64_t slots = config.parallel.slots;
  if (slots < 2) {
    issues.add("parallel.slots", {adaptive_key(config)},
               fmt::format("found {}; the batch follows what its two halves come to, which are "
                           "those of the slots: set parallel.slots to 2 or more (8 leaves room for "
                           "8 processes), or elastic.enable_adjust=false",
                           slots));
  } else if (lower < slots) {
    issues.add("elastic.batch_size_lower_bound", {"data.global_batch_size", "parallel.slots"},
               fmt::format("comes to {} samples, fewer than parallel.slots={}: some slots would be "
                           "empty, and a half of the batch with them; set it to {} or more, or "
                           "take fewer slots",
                           lower, slots, slots));
  }
}

}  // namespace

void check_adaptive_batch(const TrainConfig& config, ConfigIssues& issues) {
  if (!elastic::is_adaptive(config.elastic)) return;
  const auto key = adaptive_key(config);
  check_bounds(config, issues);
  const auto& target = config.elastic.similarity_target;
  if (config.elastic.metric == "similarity" && (*target <= 0 || *target >= 1)) {
    issues.add("elastic.similarity_target",
               fmt::format("found {}; expected a number between 0 and 1, such as 0.3: at 0 no "
                           "batch is too small, and at 1 none is large enough",
                           *target));
  }
  const auto& parallel = config.parallel;
  if (parallel.slots > 1 && !parallel.sums_by_slot()) {
    issues.add("parallel.dp_shard", {"parallel.tp", "parallel.cp", key},
               "with dp_shard, tp or cp above 1, or shard_outer, no process has the sums of both "
               "halves of a batch, which its size follows here; set them to 1, or "
               "elastic.enable_adjust=false");
  }
  if (config.data.drop_last) {
    issues.add("data.drop_last", {key},
               "found true with a batch that changes its size, and with it the samples that are "
               "left out; set data.drop_last=false");
  }
  if (!config.data.batch_schedule.empty()) {
    issues.add("data.batch_schedule", {key},
               fmt::format("found a file, which says the sizes of batches, and {}, by which they "
                           "follow the gradients; leave one of them out",
                           key));
  }
  if (config.data.train && config.data.train->get_if<data::MixConfig>() != nullptr) {
    issues.add("data.train", {key},
               "found a mix of sets, whose batches have one size within an epoch; train on one "
               "set, or set elastic.enable_adjust=false");
  }
  if (config.trainer.max_steps && optim::hangs_on_run_steps(config.schedule)) {
    issues.add("trainer.max_steps", {"schedule", key},
               "ends the run, and the schedule lasts as long; how far it has come then hangs on "
               "batches that nobody knows yet: set max_epochs in its place, or "
               "schedule.total_steps");
  }
}

}  // namespace fovea::train
