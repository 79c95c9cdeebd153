#include "fovea/serve/metrics_text.h"

#include <fmt/format.h>

#include <functional>

namespace fovea::serve {
namespace {

struct Metric {
  const char* name;
  const char* type;
  const char* help;
  std::function<uint64_t(const ModelMetrics&)> value;
};

uint64_t microseconds(const DurationStatistic& duration) { return duration.nanoseconds / 1000; }

const std::vector<Metric>& metrics_of_a_model() {
  using Model = ModelMetrics;
  static const std::vector<Metric> list = {
      {"inference_request_success", "counter", "Requests that were answered.",
       [](const Model& m) { return m.statistics.success.count; }},
      {"inference_request_failure", "counter", "Requests that ended in an error.",
       [](const Model& m) { return m.statistics.fail.count; }},
      {"inference_count", "counter", "Inputs that were computed.",
       [](const Model& m) { return m.statistics.inference_count; }},
      {"inference_exec_count", "counter", "Batches that were computed.",
       [](const Model& m) { return m.statistics.execution_count; }},
      {"inference_request_duration_us", "counter", "Microseconds from requests to answers.",
       [](const Model& m) { return microseconds(m.statistics.success); }},
      {"inference_queue_duration_us", "counter", "Of these, waiting for a batch.",
       [](const Model& m) { return microseconds(m.statistics.queue); }},
      {"inference_compute_input_duration_us", "counter", "Of these, making batches of inputs.",
       [](const Model& m) { return microseconds(m.statistics.compute_input); }},
      {"inference_compute_infer_duration_us", "counter", "Of these, in the model.",
       [](const Model& m) { return microseconds(m.statistics.compute_infer); }},
      {"inference_compute_output_duration_us", "counter", "Of these, making answers.",
       [](const Model& m) { return microseconds(m.statistics.compute_output); }},
      {"inference_pending_request_count", "gauge", "Requests that wait.",
       [](const Model& m) { return m.statistics.pending; }},
      {"model_ready", "gauge", "Whether the model answers.",
       [](const Model& m) { return uint64_t{m.is_ready}; }},
  };
  return list;
}

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text;
}

std::string labels_of(const ModelMetrics& model) {
  return fmt::format("model=\"{}\",version=\"{}\"", escaped(model.name), escaped(model.version));
}

void add_head(std::string& text, const char* name, const char* help, const char* type) {
  text += fmt::format("# HELP fovea_{0} {1}\n# TYPE fovea_{0} {2}\n", name, help, type);
}

void add_latencies(std::string& text, const ModelMetrics& model) {
  constexpr const char* kName = "fovea_inference_request_duration_seconds";
  const auto& latency = model.statistics.latency;
  const auto labels = labels_of(model);
  uint64_t total = 0;  // each bucket holds those before it
  for (size_t i = 0; i < latency.counts.size(); ++i) {
    total += latency.counts[i];
    const bool is_last = i == LatencyHistogram::kBounds.size();
    const auto bound = is_last ? "+Inf" : fmt::format("{}", LatencyHistogram::kBounds[i]);
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", kName, labels, bound, total);
  }
  text += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", kName, labels,
                      latency.sum_seconds, total);
}

}  // namespace

std::string metrics_text(const std::vector<ModelMetrics>& models) {
  std::string text;
  for (const auto& metric : metrics_of_a_model()) {
    add_head(text, metric.name, metric.help, metric.type);
    for (const auto& model : models) {
      text +=
          fmt::format("fovea_{}{{{}}} {}\n", metric.name, labels_of(model), metric.value(model));
    }
  }
  add_head(text, "inference_request_duration_seconds", "From requests to answers.", "histogram");
  for (const auto& model : models) add_latencies(text, model);
  return text;
}

}  // namespace fovea::serve
