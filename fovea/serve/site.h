// What a server has beside the protocol: a page to try its models on, and /metrics.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "fovea/serve/http_message.h"
#include "fovea/serve/model_repository.h"

namespace fovea::serve {

class Site final : public HttpHandler {
 public:
  // Both outlive it. What is not its own goes to `api`.
  Site(const ModelRepository& models, HttpHandler& api) : models_(models), api_(api) {}

  void handle(HttpRequest&& request, Done done) override;

  // From here on the server says that it is not ready, though it answers.
  void stop() { is_stopping_ = true; }

  // Paths that tell nothing of models, and are answered without a key: the page, which asks for
  // one, and what a cluster asks whether the server lives.
  static std::vector<std::string> open_paths();

 private:
  std::string metrics() const;

  const ModelRepository& models_;
  HttpHandler& api_;
  std::atomic<bool> is_stopping_ = false;
};

}  // namespace fovea::serve
