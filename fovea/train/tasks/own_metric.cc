#include "fovea/train/tasks/own_metric.h"

#include <cmath>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/own_parts.h"
#include "fovea/train/metrics/metric_names.h"

namespace fovea::train {
namespace {

OwnParts<OwnMetric>& registered_metrics() {
  static OwnParts<OwnMetric> all;
  return all;
}

const OwnMetric& own_metric(const std::string& name) {
  return registered_metrics().find(name, "task.own_metrics", "fovea.register_metric");
}

}  // namespace

void register_metric(const std::string& name, OwnMetric metric) {
  registered_metrics().add(name, std::move(metric));
}

void find_own_metrics(const std::vector<std::string>& names) {
  for (const auto& name : names) own_metric(name);
}

void check_own_metrics(const std::vector<std::string>& names, std::set<std::string> taken,
                       ConfigIssues& issues) {
  // What else stands in a line of metrics.jsonl, or in what `fovea eval --json` prints.
  taken.insert({"step", "epoch", "split", "time", "num_samples", "num_left_out"});
  for (const auto& name : names) {
    if (taken.count(without_class(name)) == 0 && taken.insert(name).second) continue;
    issues.add("own_metrics",
               fmt::format("'{}' stands for something already; expected names that no other metric "
                           "of the task has, nor a key of metrics.jsonl",
                           name));
  }
}

double own_metric_of(const std::string& name, const at::Tensor& logits, const at::Tensor& labels) {
  const double value = own_metric(name)(logits, labels);
  FOVEA_CHECK(std::isfinite(value),
              "the metric '{}' gives {} of {} samples and {} classes; expected a finite number: "
              "let it give one for such an evaluation, too",
              name, value, logits.size(0), logits.size(1));
  return value;
}

}  // namespace fovea::train
