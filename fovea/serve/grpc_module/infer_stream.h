// A stream of inferences: requests in, answers out, in their order.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "fovea/serve/grpc_module/ask.h"

namespace fovea::serve::rpc {

inline constexpr const char* kStopping = "the server is about to stop";
inline constexpr const char* kNoAnswer = "the server's answer is none of the protocol";

// Reads a request, answers it, and reads the next one: so there is one step under way at any time,
// and no lock. What is wrong with a request is told in its answer, and the stream goes on. It lives
// until gRPC has done with it.
class InferStream final : public grpc::ServerBidiReactor<::inference::ModelInferRequest,
                                                         ::inference::ModelStreamInferResponse> {
 public:
  InferStream(Program& program, const grpc::CallbackServerContext& context);

  void OnReadDone(bool is_there) override;
  void OnWriteDone(bool is_written) override;
  void OnDone() override { delete this; }

 private:
  void answer(const HttpAnswer& answer);

  Program& program_;
  const grpc::CallbackServerContext& context_;
  ::inference::ModelInferRequest request_;
  ::inference::ModelStreamInferResponse response_;
};

}  // namespace fovea::serve::rpc
