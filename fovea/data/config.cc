#include "fovea/data/config.h"

#include "fovea/data/datasets/mix.h"

namespace fovea::data {

// A mix of sets drops nothing with mix: exact.
void DataConfig::validate(ConfigIssues& issues) const {
  if (batch_schedule.empty()) return;
  const bool is_mix = train && train->get_if<MixConfig>() != nullptr;
  if (is_mix && mix == "rank_groups") {
    issues.add("batch_schedule", {"mix"},
               "found a file together with mix: rank_groups, where each rank has a fixed part of a "
               "batch; use mix: exact, cycle_to_largest or weights");
  }
  if (drop_last && (!is_mix || mix != "exact")) {
    issues.add("batch_schedule", {"drop_last"},
               "found a file together with drop_last: true, which leaves out as many samples of an "
               "epoch as its last batch is short of; set data.drop_last=false");
  }
}

}  // namespace fovea::data

namespace fovea {

template struct detail::BoundSection<data::DataConfig>;

}  // namespace fovea
