// An MLflow server that is asked over HTTP: its REST API 2.0.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/net/http.h"
#include "fovea/track/mlflow_place.h"
#include "fovea/track/mlflow_wire.h"

namespace fovea::track {

// kAway: it may be there later. kUnknown: what is asked for is not there. kRefused: asked again as
// it stands, it says the same.
class MlflowError : public Error {
 public:
  enum class Kind { kAway, kUnknown, kRefused };
  MlflowError(Kind kind, const std::string& message) : Error(message), kind_(kind) {}
  Kind kind() const { return kind_; }
  ExitCode exit_code() const override {
    return kind_ == Kind::kAway ? ExitCode::kData : ExitCode::kConfig;
  }

 private:
  Kind kind_;
};

// One thread at a time asks; any other one may interrupt. Each throws MlflowError, also where the
// answer is not MLflow's.
class MlflowClient {
 public:
  // timeout: of a request; what is uploaded takes as long as it moves.
  explicit MlflowClient(MlflowPlace place,
                        std::chrono::milliseconds timeout = std::chrono::seconds(10));

  const std::string& uri() const { return place_.uri; }
  // Of its page on a run.
  std::string page_of(const MlflowRun& run) const;

  // The id of the experiment of that name, which is made where it is not there.
  std::string experiment(const std::string& name);
  MlflowRun create_run(const std::string& experiment_id, const std::string& name,
                       const std::map<std::string, std::string>& tags, int64_t time_ms);
  MlflowRun run(const std::string& id);
  std::optional<MlflowRun> find_run(const std::string& experiment_id, const std::string& tag,
                                    const std::string& value);
  // "RUNNING", "FINISHED", "FAILED", "KILLED"; end_ms: of one that is no more.
  void set_status(const std::string& run_id, const std::string& status,
                  std::optional<int64_t> end_ms);
  // Each an array as in_requests makes them; key: "metrics", "params" or "tags".
  void log_batch(const std::string& run_id, const std::string& key, nlohmann::json items);
  // False: the server does not have the run's artifacts.
  bool upload(const MlflowRun& run, const std::string& file, const std::string& name);

  // What is under way, and all later on, ends with kAway.
  void interrupt() { http_.interrupt(); }

 private:
  std::string post(const std::string& call, const nlohmann::json& body);
  std::string get(const std::string& call, const std::string& name, const std::string& value);
  // -> the answer's body, if it is a good one.
  std::string ask(net::HttpRequest request);
  [[noreturn]] void refuse(const net::HttpReply& reply) const;
  template <class Read>
  auto understood(const Read& read) const;

  MlflowPlace place_;
  std::chrono::milliseconds timeout_;
  net::HttpClient http_;
};

}  // namespace fovea::track
