// Asks the program, and turns what it says into a call's status.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "fovea/serve/grpc/module_interface.h"
#include "fovea/serve/grpc_module/http_answer.h"
#include "fovea/serve/grpc_module/http_question.h"

namespace fovea::serve::rpc {

// The requests that are taken and not answered yet.
class TakenRequests {
 public:
  // False: no more are taken.
  bool begin();
  void end();
  // Takes no more. False: after `patience` there are still some.
  bool drain(std::chrono::milliseconds patience);

 private:
  std::mutex mutex_;
  std::condition_variable none_left_;
  int64_t count_ = 0;
  bool is_draining_ = false;
};

struct Program {
  GrpcHost host;
  std::chrono::milliseconds answer_time;
  std::chrono::milliseconds message_time;
  TakenRequests taken = {};
};

// What the program says to a call of `path` whose message has not come: OK, or why it is refused.
grpc::Status admit(const Program& program, const grpc::CallbackServerContext& context,
                   const std::string& path);

using Answered = std::function<void(const HttpAnswer&)>;

// Calls `answered` once, from any thread, maybe before it returns: with the program's answer, or
// with a 504 when the client or the server does not wait any more.
void ask(const Program& program, const grpc::CallbackServerContext& context,
         const HttpQuestion& question, Answered answered);

// The code that gRPC has for a status of HTTP, and the server's words.
grpc::Status status_of(const HttpAnswer& answer);

}  // namespace fovea::serve::rpc
