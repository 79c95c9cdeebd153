#include "fovea/serve/grpc_module/ask.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/serve/grpc_module/time_limit.h"

namespace fovea::serve::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// What waits for the program, or for the moment when nobody waits any more. Who answers ends the
// call and with it the message, so it is not told to be late while the program still reads that.
class Waiting {
 public:
  explicit Waiting(Answered answered) : answered_(std::move(answered)) {}

  void answer(const HttpAnswer& answer) {
    if (!is_answered_.exchange(true)) answered_(answer);
  }
  void be_late() {
    is_late_ = true;
    if (is_read_) answer_late();
  }
  void be_read() {
    is_read_ = true;
    if (is_late_) answer_late();
  }

  TimeLimit limit;

 private:
  void answer_late() {
    answer({.status = 504, .json = R"({"error": "no answer in time"})", .binary = {}});
  }

  const Answered answered_;
  std::atomic<bool> is_answered_ = false, is_late_ = false, is_read_ = false;
};

GrpcBytes bytes_of(std::string_view text) { return {text.data(), text.size()}; }

GrpcBytes metadata_of(const grpc::CallbackServerContext& context, const char* name) {
  const auto& all = context.client_metadata();
  const auto found = all.find(name);
  return found == all.end() ? GrpcBytes{nullptr, 0}
                            : GrpcBytes{found->second.data(), found->second.size()};
}

milliseconds patience_of(const grpc::CallbackServerContext& context, milliseconds most) {
  const auto left = context.deadline() - system_clock::now();  // without one: very long
  if (left >= most) return most;
  return std::max(std::chrono::ceil<milliseconds>(left), milliseconds(0));
}

HttpAnswer answer_of(const GrpcReply& reply) {
  const auto body = reply.body.size == 0 ? std::string_view()
                                         : std::string_view(reply.body.data, reply.body.size);
  HttpAnswer answer{.status = reply.status, .json = body, .binary = {}};
  if (reply.json_length < 0 || static_cast<size_t>(reply.json_length) > body.size()) return answer;
  answer.json = body.substr(0, static_cast<size_t>(reply.json_length));
  answer.binary = body.substr(static_cast<size_t>(reply.json_length));
  return answer;
}

void take_reply(void* call, const GrpcReply* reply) {
  const std::unique_ptr<std::shared_ptr<Waiting>> held(
      static_cast<std::shared_ptr<Waiting>*>(call));
  const auto& waiting = *held;
  waiting->answer(answer_of(*reply));
  waiting->limit.stop();
}

void keep_refusal(void* status, const GrpcReply* reply) {
  *static_cast<grpc::Status*>(status) = status_of(answer_of(*reply));
}

}  // namespace

bool TakenRequests::begin() {
  const std::lock_guard lock(mutex_);
  if (!is_draining_) ++count_;
  return !is_draining_;
}

void TakenRequests::end() {
  const std::lock_guard lock(mutex_);
  if (--count_ == 0) none_left_.notify_all();
}

bool TakenRequests::drain(milliseconds patience) {
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  return none_left_.wait_for(lock, patience, [this] { return count_ == 0; });
}

grpc::Status admit(const Program& program, const grpc::CallbackServerContext& context,
                   const std::string& path) {
  const GrpcRequest head{.method = bytes_of("POST"),
                         .path = bytes_of(path),
                         .authorization = metadata_of(context, "authorization"),
                         .id = metadata_of(context, "x-request-id"),
                         .body = nullptr,
                         .num_parts = 0,
                         .json_length = -1,
                         .milliseconds = 0};
  grpc::Status status;
  program.host.admit(program.host.self, &head, &keep_refusal, &status);
  return status;
}

void ask(const Program& program, const grpc::CallbackServerContext& context,
         const HttpQuestion& question, Answered answered) {
  const auto time = patience_of(context, program.answer_time);
  const auto waiting = std::make_shared<Waiting>(std::move(answered));
  std::vector<GrpcBytes> body = {bytes_of(question.body)};
  for (const auto part : question.binary) body.push_back(bytes_of(part));
  const GrpcRequest request{
      .method = bytes_of(question.method),
      .path = bytes_of(question.path),
      .authorization = metadata_of(context, "authorization"),
      .id = metadata_of(context, "x-request-id"),
      .body = body.data(),
      .num_parts = body.size(),
      .json_length = question.has_binary ? static_cast<int64_t>(question.body.size()) : -1,
      .milliseconds = time.count()};
  waiting->limit.start(time, [waiting] { waiting->be_late(); });
  program.host.handle(program.host.self, &request, &take_reply,
                      new std::shared_ptr<Waiting>(waiting));
  waiting->be_read();
}

grpc::Status status_of(const HttpAnswer& answer) {
  if (answer.status == 200) return grpc::Status::OK;
  const auto code = [&] {
    switch (answer.status) {
      case 401:
        return grpc::StatusCode::UNAUTHENTICATED;
      case 403:
        return grpc::StatusCode::PERMISSION_DENIED;
      case 404:
        return grpc::StatusCode::NOT_FOUND;
      case 408:
      case 504:
        return grpc::StatusCode::DEADLINE_EXCEEDED;
      case 413:
        return grpc::StatusCode::RESOURCE_EXHAUSTED;
      case 503:
        return grpc::StatusCode::UNAVAILABLE;
      default:
        return answer.status < 500 ? grpc::StatusCode::INVALID_ARGUMENT
                                   : grpc::StatusCode::INTERNAL;
    }
  }();
  return {code, error_of(answer)};
}

}  // namespace fovea::serve::rpc
