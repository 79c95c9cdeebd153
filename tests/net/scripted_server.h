// An HTTP server on 127.0.0.1 that says what a test tells it to, byte for byte.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace fovea::net {

// One connection after another, each closed behind its answer. A request is read to the end of the
// body that its Content-Length promises.
class ScriptedServer {
 public:
  // What comes back for a request, head and body of which are given: the very bytes, which need not
  // be a whole answer.
  using Answer = std::function<std::string(const std::string& request)>;

  explicit ScriptedServer(Answer answer);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> requests() const;  // so far

 private:
  void serve();

  Answer answer_;
  int listener_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

// An answer with its length.
std::string whole_answer(std::string_view status, std::string_view headers, std::string_view body);

}  // namespace fovea::net
