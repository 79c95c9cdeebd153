#include "fovea/train/recipe/elastic_check.h"

#include <fmt/format.h>

#include "fovea/data/datasets/mix.h"

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

}  // namespace fovea::train
