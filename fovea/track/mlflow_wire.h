// What is said to an MLflow server and what it answers (REST API 2.0), as texts and values: nothing
// here knows the network.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::track {

// Of one request, as the server has them.
inline constexpr size_t kMostMetrics = 1000, kMostParams = 100, kMostTags = 100;
inline constexpr size_t kMostBytes = 900'000;  // it takes 1 MB, with what stands around them
inline constexpr size_t kMostNameBytes = 250, kMostParamBytes = 6000, kMostTagBytes = 5000;

struct MlflowExperiment {
  std::string id;
  bool is_deleted = false;
};

struct MlflowRun {
  std::string id, experiment_id;
  std::string status;
  std::string artifact_uri;  // "mlflow-artifacts:/0/.../artifacts": the server takes artifacts
  bool is_deleted = false;
  std::map<std::string, int64_t> last_steps = {};  // of each metric
  std::set<std::string> params = {};               // their names
};

// Why a server did not do what it was asked; empty: it did not say so as MLflow does.
struct MlflowRefusal {
  std::string code;  // "RESOURCE_DOES_NOT_EXIST"
  std::string message;
};

// Of answers. Throw DataError naming `source` for what is none.
MlflowExperiment read_experiment(std::string_view text, const std::string& source);
std::string read_made_experiment(std::string_view text, const std::string& source);  // -> its id
MlflowRun read_run(std::string_view text, const std::string& source);
// Of a search; nothing: no run was found.
std::optional<MlflowRun> read_first_run(std::string_view text, const std::string& source);
MlflowRefusal read_refusal(std::string_view text);

// As names may be there: letters, digits and _ - . / and blanks; all else becomes _.
std::string mlflow_name(std::string_view name);
// No more than so many bytes of it, and no half of a letter.
std::string shortened(std::string_view text, size_t max_bytes);

// A value that JSON has no word for goes as "NaN", "Infinity" or "-Infinity".
nlohmann::json metric_json(const std::string& name, double value, int64_t time_ms, int64_t step);
// {"key": ..., "value": ...} of each, within the limits on lengths; of names that come to the same
// one the last counts.
std::vector<nlohmann::json> pairs_json(const std::map<std::string, std::string>& values,
                                       size_t max_value_bytes);
// In parts of so many and of kMostBytes, in order.
std::vector<nlohmann::json> in_requests(const std::vector<nlohmann::json>& items, size_t max_items);

// Where a file goes on the server that has a run's artifacts: "/0/.../artifacts/report.html".
// Nothing: that server does not take them.
std::optional<std::string> artifact_path(const std::string& artifact_uri,
                                         const std::string& server_uri, const std::string& name);

}  // namespace fovea::track
