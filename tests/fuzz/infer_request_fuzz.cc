// Bodies of inference requests: any bytes are read as one, or refused with an error; what is read
// holds together, and an answer of the same tensors can be written.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "fovea/core/error.h"
#include "fovea/serve/protocol/infer_request.h"
#include "fovea/serve/protocol/infer_response.h"

namespace {

using namespace fovea::serve;

void check(const InferRequest& request) {
  InferResponse response{.model_name = "m", .model_version = "1", .id = request.id, .outputs = {}};
  for (const auto& input : request.inputs) {
    if (input.datatype == "BYTES") bytes_elements(input);
    response.outputs.push_back(
        {.name = input.name,
         .datatype = input.datatype,
         .shape = input.shape,
         .bytes = std::string(input.bytes),
         .is_binary = input.bytes.size() % 2 == 0 || input.datatype != "BYTES"});
  }
  const auto body = write_infer_response(std::move(response));
  if (body.json_length.value_or(0) > body.bytes.size()) std::abort();
}

}  // namespace

// The first two bytes: how much of the body is JSON; 65535: nothing says so.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::optional<uint64_t> json_length = data[0] + 256U * data[1];
  if (json_length == uint64_t{65535}) json_length.reset();
  try {
    check(read_infer_request(
        std::make_shared<const std::string>(reinterpret_cast<const char*>(data) + 2, size - 2),
        json_length));
  } catch (const fovea::Error&) {
  }
  return 0;
}
