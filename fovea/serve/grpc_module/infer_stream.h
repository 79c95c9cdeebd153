// A stream of inferences: requests in, answers out, in their order.
#pragma once

#include "fovea/serve/grpc_module/call.h"

namespace fovea::serve::rpc {

// Reads a request, answers it, and reads the next one: so there is one step under way at any time,
// and no lock. What is wrong with a request is told in its answer, and the stream goes on.
class InferStream final : public Call {
 public:
  InferStream(Program& program, const CallContext& context) : Call(program, context) { read(); }

  void OnWriteDone(bool is_written) override;

 private:
  void take(grpc::ByteBuffer& message) override;
  void take_end() override { Finish(grpc::Status::OK); }
  void answer(const HttpAnswer& answer);
  void write(::inference::ModelStreamInferResponse& response);

  ::inference::ModelInferRequest request_;
  grpc::ByteBuffer response_;
};

}  // namespace fovea::serve::rpc
