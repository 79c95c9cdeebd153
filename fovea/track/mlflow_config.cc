#include "fovea/track/mlflow_config.h"

#include <algorithm>

#include "fovea/track/mlflow_place.h"

namespace fovea::track {

// An address that is not given may come from the environment, which another machine that reads the
// recipe need not have.
void MlflowConfig::validate(ConfigIssues& issues) const {
  if (const auto fault = fault_of_uri(uri); !uri.empty() && !fault.empty()) {
    issues.add("uri", fault);
  }
  const bool has_none = std::find(artifacts.begin(), artifacts.end(), "none") != artifacts.end();
  if (has_none && artifacts.size() > 1) {
    issues.add("artifacts", "found none beside others; expected none, or report and weights");
  }
}

}  // namespace fovea::track
