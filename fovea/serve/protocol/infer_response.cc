#include "fovea/serve/protocol/infer_response.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "fovea/core/json.h"
#include "fovea/core/utf8.h"
#include "fovea/files/little_endian.h"
#include "fovea/serve/protocol/input_tensor.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

using nlohmann::ordered_json;

template <class Number>
ordered_json numbers_of(std::string_view bytes) {
  auto list = ordered_json::array();
  for (size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    list.push_back(number);
  }
  return list;
}

ordered_json texts_of(const OutputTensor& output) {
  auto list = ordered_json::array();
  const InputTensor tensor{.name = output.name,
                           .datatype = output.datatype,
                           .shape = output.shape,
                           .bytes = output.bytes,
                           .owner = {}};
  for (const auto element : bytes_elements(tensor)) {
    if (!is_utf8(element)) {
      fail_with(400,
                "output '{}' is no text, which JSON cannot hold; expected its parameter "
                "binary_data, or the request's binary_data_output, to be true",
                output.name);
    }
    list.push_back(std::string(element));
  }
  return list;
}

ordered_json data_of(const OutputTensor& output) {
  if (output.datatype == "FP32") return numbers_of<float>(output.bytes);
  if (output.datatype == "INT32") return numbers_of<int32_t>(output.bytes);
  if (output.datatype == "INT64") return numbers_of<int64_t>(output.bytes);
  return texts_of(output);
}

}  // namespace

void add_bytes_element(std::string& bytes, std::string_view element) {
  put(bytes, static_cast<uint32_t>(element.size()));
  bytes += element;
}

ResponseBody write_infer_response(InferResponse&& response) {
  ordered_json head;
  if (!response.id.empty()) head["id"] = response.id;
  head["model_name"] = response.model_name;
  head["model_version"] = response.model_version;
  head["outputs"] = ordered_json::array();
  size_t binary_bytes = 0;
  bool has_binary = false;
  for (const auto& output : response.outputs) {
    ordered_json one = {
        {"name", output.name}, {"datatype", output.datatype}, {"shape", output.shape}};
    if (output.is_binary) {
      one["parameters"] = {{"binary_data_size", output.bytes.size()}};
      binary_bytes += output.bytes.size();
      has_binary = true;
    } else {
      one["data"] = data_of(output);
    }
    head["outputs"].push_back(std::move(one));
  }
  ResponseBody body{.bytes = json_text(head), .json_length = {}};
  if (!has_binary) return body;
  body.json_length = body.bytes.size();
  body.bytes.reserve(body.bytes.size() + binary_bytes);
  for (auto& output : response.outputs) {
    if (output.is_binary) body.bytes += std::exchange(output.bytes, {});
  }
  return body;
}

}  // namespace fovea::serve
