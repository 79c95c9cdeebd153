// The module in this process, against a program that does what a test says.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "fovea/serve/grpc/grpc_server.h"
#include "tests/serve/grpc/function_handler.h"
#include "tests/serve/grpc_module/grpc_client.h"

namespace fovea::serve::testing {

inline HttpResponse json_answer(const std::string& text) {
  return {.status = 200, .headers = {}, .body = text};
}

class GrpcModuleFixture : public ::testing::Test {
 protected:
  GrpcModuleFixture() { options_.port = 0; }

  GrpcClient& start(FunctionHandler::Function function) {
    handler_.emplace(std::move(function));
    server_.emplace(options_, *handler_, *fovea_grpc_module());
    return client_.emplace(server_->port());
  }
  // Each request is answered so, and the last one kept.
  GrpcClient& start(HttpResponse response) {
    return start([this, response](HttpRequest&& request, const HttpHandler::Done& done) {
      {
        const std::lock_guard lock(mutex_);
        asked_ = std::move(request);
      }
      done(HttpResponse(response));
    });
  }
  std::string asked() {
    const std::lock_guard lock(mutex_);
    return asked_.method + " " + asked_.path;
  }
  nlohmann::json asked_json() {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, value] : asked_.headers) {
      if (name == "inference-header-content-length")
        return nlohmann::json::parse(asked_.body.substr(0, std::stoul(value)));
    }
    return nlohmann::json::parse(asked_.body);
  }

  HttpServerOptions options_;
  std::mutex mutex_;
  HttpRequest asked_;
  std::optional<FunctionHandler> handler_;
  std::optional<GrpcServer> server_;
  std::optional<GrpcClient> client_;
};

}  // namespace fovea::serve::testing
