#include "fovea/serve/statistics_json.h"

#include "fovea/serve/model_interface.h"

namespace fovea::serve {
namespace {

using nlohmann::ordered_json;

ordered_json duration_json(const DurationStatistic& one) {
  return {{"count", one.count}, {"ns", one.nanoseconds}};
}

ordered_json batches_json(const std::map<int64_t, BatchStatistic>& batches) {
  auto list = ordered_json::array();
  for (const auto& [size, one] : batches) {
    list.push_back({{"batch_size", size},
                    {"compute_input", duration_json(one.compute_input)},
                    {"compute_infer", duration_json(one.compute_infer)},
                    {"compute_output", duration_json(one.compute_output)}});
  }
  return list;
}

}  // namespace

ordered_json statistics_json(const std::string& name, const StatisticsSnapshot& all) {
  const DurationStatistic none;  // answers are not kept
  return {{"name", name},
          {"version", kModelVersion},
          {"last_inference", all.last_inference},
          {"inference_count", all.inference_count},
          {"execution_count", all.execution_count},
          {"inference_stats",
           {{"success", duration_json(all.success)},
            {"fail", duration_json(all.fail)},
            {"queue", duration_json(all.queue)},
            {"compute_input", duration_json(all.compute_input)},
            {"compute_infer", duration_json(all.compute_infer)},
            {"compute_output", duration_json(all.compute_output)},
            {"cache_hit", duration_json(none)},
            {"cache_miss", duration_json(none)}}},
          {"batch_stats", batches_json(all.batches)}};
}

}  // namespace fovea::serve
