#include "fovea/serve/grpc_module/infer_stream.h"

namespace fovea::serve::rpc {

InferStream::InferStream(Program& program, const grpc::CallbackServerContext& context)
    : program_(program), context_(context) {
  StartRead(&request_);
}

void InferStream::OnReadDone(bool is_there) {
  if (!is_there) return Finish(grpc::Status::OK);  // the client has no more
  if (!program_.taken.begin()) return Finish({grpc::StatusCode::UNAVAILABLE, kStopping});
  const auto question = infer_question(request_);
  if (!question.refused.empty()) {
    response_.set_error_message(question.refused);
    response_.mutable_infer_response()->set_id(request_.id());
    return StartWrite(&response_);
  }
  ask(program_, context_, question, [this](const HttpAnswer& one) { answer(one); });
}

void InferStream::answer(const HttpAnswer& answer) {
  auto& outputs = *response_.mutable_infer_response();
  if (answer.status != 200) {
    response_.set_error_message(error_of(answer));
  } else if (!read_outputs(answer, outputs)) {
    outputs.Clear();
    response_.set_error_message(kNoAnswer);
  }
  outputs.set_id(request_.id());
  StartWrite(&response_);
}

void InferStream::OnWriteDone(bool is_written) {
  program_.taken.end();
  if (!is_written) return Finish({grpc::StatusCode::UNAVAILABLE, "the client has left"});
  response_.Clear();
  StartRead(&request_);
}

}  // namespace fovea::serve::rpc
