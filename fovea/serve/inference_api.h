// The Open Inference Protocol v2 over HTTP, with Triton's extensions: see docs/serving.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/serve/http_message.h"
#include "fovea/serve/model_repository.h"
#include "fovea/serve/worker_threads.h"

namespace fovea::serve {

struct ApiOptions {
  std::string server_version;
  bool model_control = false;  // whether clients may load and unload models
};

// Answers everything below /v2; 404 for another path. Never throws. Thread-safe.
class InferenceApi : public HttpHandler {
 public:
  // `models` outlives it.
  InferenceApi(ModelRepository& models, ApiOptions options);

  void handle(HttpRequest&& request, Done done) override;

 private:
  HttpResponse answer(const HttpRequest& request, const std::vector<std::string>& parts) const;
  HttpResponse answer_of_model(const HttpRequest& request,
                               const std::vector<std::string>& parts) const;
  nlohmann::ordered_json server_metadata() const;
  HttpResponse all_statistics() const;
  HttpResponse index(const HttpRequest& request) const;
  // These call `done` unless they throw.
  void infer(HttpRequest&& request, const std::vector<std::string>& parts, const Done& done) const;
  void control(const HttpRequest& request, const std::vector<std::string>& parts, const Done& done);

  ModelRepository& models_;
  const ApiOptions options_;
  WorkerThreads loader_{1};  // a load takes seconds, which no thread of the server waits
};

}  // namespace fovea::serve
