// What served models have done, as Prometheus reads it.
#pragma once

#include <string>
#include <vector>

#include "fovea/serve/model_statistics.h"

namespace fovea::serve {

struct ModelMetrics {
  std::string name, version;
  bool is_ready = false;
  StatisticsSnapshot statistics = {};
};

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// The names are Triton's nv_inference_..., with fovea_ in place of nv_, and a histogram of whole
// requests.
std::string metrics_text(const std::vector<ModelMetrics>& models);

}  // namespace fovea::serve
