#include "fovea/track/mlflow_client.h"

#include <filesystem>
#include <utility>

#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/net/url.h"

namespace fovea::track {
namespace {

using nlohmann::json;
using Kind = MlflowError::Kind;

constexpr const char* kApi = "/api/2.0/mlflow/";

json tag_list(const std::map<std::string, std::string>& tags) {
  return pairs_json(tags, kMostTagBytes);
}

bool is_of_later(int64_t status) { return status == 408 || status == 429 || status >= 500; }

}  // namespace

MlflowClient::MlflowClient(MlflowPlace place, std::chrono::milliseconds timeout)
    : place_(std::move(place)), timeout_(timeout) {}

std::string MlflowClient::page_of(const MlflowRun& run) const {
  return fmt::format("{}/#/experiments/{}/runs/{}", place_.uri, run.experiment_id, run.id);
}

void MlflowClient::refuse(const net::HttpReply& reply) const {
  const auto refusal = read_refusal(reply.body);
  const auto& said = refusal.message.empty() ? reply.body : refusal.message;
  const auto told = fmt::format("MLflow at {}: HTTP {}, '{}'", place_.uri, reply.status,
                                printable_start(said, 200));
  if (reply.status == 401 || reply.status == 403) {
    const bool has_shown = !place_.authorization.empty();
    throw MlflowError(
        Kind::kRefused,
        fmt::format("{}: {}; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                    "MLFLOW_TRACKING_TOKEN, of somebody who may write there",
                    told, has_shown ? "the user or token is not taken" : "it wants a user"));
  }
  if (is_of_later(reply.status)) throw MlflowError(Kind::kAway, told);
  if (!reply.redirect_url.empty()) {
    throw MlflowError(Kind::kRefused,
                      fmt::format("MLflow at {}: it leads on to {}; give that server's address",
                                  place_.uri, printable_start(reply.redirect_url, 200)));
  }
  if (refusal.code == "RESOURCE_DOES_NOT_EXIST") throw MlflowError(Kind::kUnknown, told);
  if (refusal.code.empty()) {
    throw MlflowError(
        Kind::kRefused,
        fmt::format("{} answers, but not as MLflow does: HTTP {}, '{}'; expected MLflow's REST API "
                    "below {}/api/2.0, the address that its pages have",
                    place_.uri, reply.status, printable_start(reply.body), place_.uri));
  }
  throw MlflowError(Kind::kRefused, told);
}

std::string MlflowClient::ask(net::HttpRequest request) {
  if (!place_.authorization.empty()) {
    request.headers.emplace_back("Authorization", place_.authorization);
  }
  request.ca_file = place_.ca_file;
  request.uses_environment_proxy = true;
  try {
    auto reply = http_.perform(request);
    if (reply.status < 200 || reply.status >= 300) refuse(reply);
    return std::move(reply.body);
  } catch (const net::HttpError& error) {
    const auto told = fmt::format("MLflow at {}: {}", place_.uri, error.what());
    if (error.kind() != net::HttpError::Kind::kCertificate) throw MlflowError(Kind::kAway, told);
    throw MlflowError(
        Kind::kRefused,
        fmt::format("{}; name the file with the certificate of who signs for it in "
                    "MLFLOW_TRACKING_SERVER_CERT_PATH, and the server as its certificate does",
                    told));
  }
}

std::string MlflowClient::post(const std::string& call, const json& body) {
  return ask({.method = "POST",
              .url = place_.uri + kApi + call,
              .headers = {{"Content-Type", "application/json"}},
              .body = json_text(body),
              .timeout = timeout_});
}

std::string MlflowClient::get(const std::string& call, const std::string& name,
                              const std::string& value) {
  return ask({.url = fmt::format("{}{}{}?{}={}", place_.uri, kApi, call, name,
                                 net::percent_encoded(value)),
              .timeout = timeout_});
}

// What is read from an answer.
template <class Read>
auto MlflowClient::understood(const Read& read) const {
  try {
    return read();
  } catch (const DataError& error) {
    throw MlflowError(Kind::kRefused,
                      fmt::format("{}; expected an answer of MLflow's REST API", error.what()));
  }
}

std::string MlflowClient::experiment(const std::string& name) {
  const auto look = [&] {
    const auto text = get("experiments/get-by-name", "experiment_name", name);
    return understood([&] { return read_experiment(text, "MLflow at " + place_.uri); });
  };
  MlflowExperiment found;
  try {
    found = look();
  } catch (const MlflowError& error) {
    if (error.kind() != Kind::kUnknown) throw;
    try {
      const auto text = post("experiments/create", {{"name", name}});
      return understood([&] { return read_made_experiment(text, "MLflow at " + place_.uri); });
    } catch (const MlflowError& refusal) {
      if (refusal.kind() != Kind::kRefused) throw;
      try {
        found = look();  // another run has made it meanwhile
      } catch (const MlflowError& still) {
        if (still.kind() == Kind::kUnknown) throw refusal;
        throw;
      }
    }
  }
  if (!found.is_deleted) return found.id;
  throw MlflowError(
      Kind::kRefused,
      fmt::format("MLflow at {}: the experiment '{}' is deleted; restore it (mlflow experiments "
                  "restore --experiment-id {}), or name another in log.mlflow.experiment",
                  place_.uri, printable_start(name), found.id));
}

MlflowRun MlflowClient::create_run(const std::string& experiment_id, const std::string& name,
                                   const std::map<std::string, std::string>& tags,
                                   int64_t time_ms) {
  const auto text = post("runs/create", {{"experiment_id", experiment_id},
                                         {"run_name", shortened(name, kMostNameBytes)},
                                         {"start_time", time_ms},
                                         {"tags", tag_list(tags)}});
  return understood([&] { return read_run(text, "MLflow at " + place_.uri); });
}

MlflowRun MlflowClient::run(const std::string& id) {
  const auto text = get("runs/get", "run_id", id);
  return understood([&] { return read_run(text, "MLflow at " + place_.uri); });
}

std::optional<MlflowRun> MlflowClient::find_run(const std::string& experiment_id,
                                                const std::string& tag, const std::string& value) {
  const auto text = post("runs/search", {{"experiment_ids", {experiment_id}},
                                         {"filter", fmt::format("tags.`{}` = '{}'", tag, value)},
                                         {"run_view_type", "ALL"},
                                         {"max_results", 1}});
  return understood([&] { return read_first_run(text, "MLflow at " + place_.uri); });
}

void MlflowClient::set_status(const std::string& run_id, const std::string& status,
                              std::optional<int64_t> end_ms) {
  json body = {{"run_id", run_id}, {"status", status}};
  if (end_ms) body["end_time"] = *end_ms;
  post("runs/update", body);
}

void MlflowClient::log_batch(const std::string& run_id, const std::string& key, json items) {
  post("runs/log-batch", {{"run_id", run_id}, {key, std::move(items)}});
}

bool MlflowClient::upload(const MlflowRun& run, const std::string& file, const std::string& name) {
  const auto path = artifact_path(run.artifact_uri, place_.uri, name);
  if (!path) return false;
  ask({.method = "PUT",
       .url =
           place_.uri + "/api/2.0/mlflow-artifacts/artifacts" + net::percent_encoded(*path, true),
       .headers = {{"Content-Type", "application/octet-stream"}},
       .file = file,
       .timeout = std::chrono::milliseconds(0),
       .min_bytes_per_second = 1,
       .slow_for = std::chrono::seconds(60)});
  return true;
}

}  // namespace fovea::track
