// A call, from before its first message is there.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/generic/async_generic_service.h>

#include <utility>

#include "fovea/serve/grpc_module/ask.h"
#include "fovea/serve/grpc_module/time_limit.h"

namespace fovea::serve::rpc {

inline constexpr const char* kStopping = "the server is about to stop";
inline constexpr const char* kNoAnswer = "the server's answer is none of the protocol";
inline constexpr const char* kNoRequest =
    "the message cannot be read; expected one of inference.GRPCInferenceService";

using CallContext = grpc::GenericCallbackServerContext;

// Note [Messages in time]
// Of a call of one message gRPC tells when that is there, and it waits as long as the client likes.
// So each call is taken as a stream, which is the same on the wire, and tells of itself at once:
// its messages are read here, each within a time.
class Call : public grpc::ServerGenericBidiReactor {
 public:
  Call(Program& program, const CallContext& context) : program_(program), context_(context) {}

  void OnReadDone(bool is_there) final;
  // It lives until gRPC has done with it.
  void OnDone() override { delete this; }

 protected:
  // The next message goes to take(); a client that lets it wait loses the call.
  void read();
  virtual void take(grpc::ByteBuffer& message) = 0;
  virtual void take_end() = 0;  // the client has no more

  Program& program_;
  const CallContext& context_;

 private:
  TimeLimit limit_;
  grpc::ByteBuffer message_;
};

// One that ends before its message is there.
class RefusedCall final : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusedCall(grpc::Status status) { Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

// False: they are no message of its type. The bytes are let go.
bool read_message(grpc::ByteBuffer& bytes, google::protobuf::Message& message);
grpc::ByteBuffer message_bytes(const google::protobuf::Message& message);

}  // namespace fovea::serve::rpc
