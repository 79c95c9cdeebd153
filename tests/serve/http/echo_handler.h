// Answers with what it was asked.
#pragma once

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fovea/serve/http_message.h"

namespace fovea::serve {

// "GET /path body"; of /slow/MS after so many milliseconds, from another thread; of /never not at
// all; of /throws an exception; of /broken with a line end within a header.
class EchoHandler final : public HttpHandler {
 public:
  ~EchoHandler() override { join(); }
  void join() {
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

  void handle(HttpRequest&& request, Done done) override {
    ++num_requests;
    if (request.path == "/throws") throw std::runtime_error("secret of the request");
    if (request.path == "/never") return;
    HttpResponse response;
    response.headers = {{"Content-Type", "text/plain"}};
    if (request.path == "/broken") response.headers.emplace_back("X-A", "a\r\nX-B: b");
    response.body = request.method + " " + request.path + " " + request.body;
    if (!request.path.starts_with("/slow/")) return done(std::move(response));
    const auto time = std::chrono::milliseconds(std::stoi(request.path.substr(6)));
    threads_.emplace_back([time, done, kept = std::move(response)]() mutable {
      std::this_thread::sleep_for(time);
      done(std::move(kept));
    });
  }

  std::atomic<int> num_requests = 0;

 private:
  std::vector<std::thread> threads_;  // servers of tests have one thread
};

}  // namespace fovea::serve
