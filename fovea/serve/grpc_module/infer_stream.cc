#include "fovea/serve/grpc_module/infer_stream.h"

namespace fovea::serve::rpc {

using ::inference::ModelStreamInferResponse;

void InferStream::take(grpc::ByteBuffer& message) {
  if (!read_message(message, request_))
    return Finish({grpc::StatusCode::INVALID_ARGUMENT, kNoRequest});
  if (!program_.taken.begin()) return Finish({grpc::StatusCode::UNAVAILABLE, kStopping});
  const auto question = infer_question(request_);
  if (!question.refused.empty()) {
    ModelStreamInferResponse response;
    response.set_error_message(question.refused);
    return write(response);
  }
  ask(program_, context_, question, [this](const HttpAnswer& one) { answer(one); });
}

void InferStream::answer(const HttpAnswer& answer) {
  ModelStreamInferResponse response;
  auto& outputs = *response.mutable_infer_response();
  if (answer.status != 200) {
    response.set_error_message(error_of(answer));
  } else if (!read_outputs(answer, outputs)) {
    outputs.Clear();
    response.set_error_message(kNoAnswer);
  }
  write(response);
}

void InferStream::write(ModelStreamInferResponse& response) {
  response.mutable_infer_response()->set_id(request_.id());
  response_ = message_bytes(response);
  StartWrite(&response_);
}

void InferStream::OnWriteDone(bool is_written) {
  program_.taken.end();
  if (!is_written) return Finish({grpc::StatusCode::UNAVAILABLE, "the client has left"});
  read();
}

}  // namespace fovea::serve::rpc
