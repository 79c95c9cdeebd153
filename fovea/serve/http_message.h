#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace fovea::serve {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without the query, decoded: "/v2/models/vit/infer"
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                // whole, expanded where it came as gzip
  std::string id;                                  // of the request, for the log
  std::chrono::steady_clock::time_point deadline;  // an answer after it is of no use
};

struct HttpResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// Takes requests from the server's threads and answers each once, from any thread, now or later.
class HttpHandler {
 public:
  using Done = std::function<void(HttpResponse&&)>;
  virtual ~HttpHandler() = default;
  virtual void handle(HttpRequest&& request, Done done) = 0;
};

}  // namespace fovea::serve
