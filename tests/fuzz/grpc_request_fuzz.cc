// Inference requests of gRPC: whatever protobuf reads is written as the request that HTTP has for
// it, or refused; and what was written is read again, to the byte, or refused with an error.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "fovea/core/error.h"
#include "fovea/serve/grpc_module/http_question.h"
#include "fovea/serve/protocol/infer_request.h"

namespace {

using namespace fovea::serve;

void check(const rpc::HttpQuestion& question, const ::inference::ModelInferRequest& message) {
  std::string body = question.body;
  for (const auto part : question.binary) body += part;
  try {
    const auto request = read_infer_request(std::make_shared<const std::string>(std::move(body)),
                                            question.body.size());
    if (request.inputs.size() != static_cast<size_t>(message.inputs_size())) std::abort();
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      if (request.inputs[i].bytes != question.binary[i]) std::abort();
      if (request.inputs[i].name != message.inputs(static_cast<int>(i)).name()) std::abort();
    }
  } catch (const fovea::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  google::protobuf::SetLogHandler(nullptr);
  ::inference::ModelInferRequest message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto question = rpc::infer_question(message);
  if (question.refused.empty()) check(question, message);
  return 0;
}
