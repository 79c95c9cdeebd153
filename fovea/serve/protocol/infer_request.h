// The body of an inference request: JSON, and behind it tensors as bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/serve/protocol/input_tensor.h"

namespace fovea::serve {

struct OutputRequest {
  std::string name;
  bool is_binary = false;
  int64_t classification = 0;  // best classes in place of the tensor; 0: the tensor
};

struct InferRequest {
  std::string id;                      // the client's own, which the answer repeats
  std::vector<InputTensor> inputs;     // of different names
  std::vector<OutputRequest> outputs;  // of different names; empty: those that the model gives
  bool is_output_binary = false;       // of outputs that do not say
  nlohmann::json parameters = nlohmann::json::object();
  std::optional<int64_t> timeout_microseconds = {};

  // A switch among the parameters; false where there is none. Throws StatusError where it is no
  // boolean.
  bool flag(std::string_view name) const;
};

// json_length: what Inference-Header-Content-Length says; nothing: all of the body is JSON. 0: the
// body is one element of the input `image`, an image file as it is. Throws StatusError (400), or
// DataError: what was found and what was expected. Takes time and memory in proportion to the body.
InferRequest read_infer_request(std::shared_ptr<const std::string> body,
                                std::optional<uint64_t> json_length);

}  // namespace fovea::serve
