// The answer to an inference request: JSON, and behind it the tensors that were wanted as bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::serve {

struct OutputTensor {
  std::string name;
  std::string datatype;
  std::vector<int64_t> shape;
  std::string bytes;  // as of an InputTensor
  bool is_binary = false;
};

struct InferResponse {
  std::string model_name;
  std::string model_version;
  std::string id;  // of the request; empty: none
  std::vector<OutputTensor> outputs;
};

struct ResponseBody {
  std::string bytes;
  std::optional<size_t> json_length;  // where binary data follows the JSON
};

// Takes the outputs' bytes away as it goes. Throws StatusError (400) where bytes that are no text
// were wanted as JSON.
ResponseBody write_infer_response(InferResponse&& response);

// Adds an element of BYTES.
void add_bytes_element(std::string& bytes, std::string_view element);

}  // namespace fovea::serve
