// A handler that does what a test says.
#pragma once

#include <functional>
#include <utility>

#include "fovea/serve/http_message.h"

namespace fovea::serve {

class FunctionHandler final : public HttpHandler {
 public:
  using Function = std::function<void(HttpRequest&&, Done)>;
  explicit FunctionHandler(Function function) : function_(std::move(function)) {}
  void handle(HttpRequest&& request, Done done) override {
    function_(std::move(request), std::move(done));
  }

 private:
  Function function_;
};

}  // namespace fovea::serve
