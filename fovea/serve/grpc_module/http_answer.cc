#include "fovea/serve/grpc_module/http_answer.h"

#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <nlohmann/json.hpp>

namespace fovea::serve::rpc {
namespace {

using nlohmann::json;

// Takes the output's bytes from the start of `binary`. False: it is shorter.
bool add_output(const json& output, std::string_view& binary,
                ::inference::ModelInferResponse& response) {
  auto& one = *response.add_outputs();
  one.set_name(output.at("name").get<std::string>());
  one.set_datatype(output.at("datatype").get<std::string>());
  for (const auto& side : output.at("shape")) one.add_shape(side.get<int64_t>());
  const auto size = output.at("parameters").at("binary_data_size").get<size_t>();
  if (size > binary.size()) return false;
  response.add_raw_output_contents(binary.data(), size);
  binary.remove_prefix(size);
  return true;
}

}  // namespace

bool read_json(const HttpAnswer& answer, const std::string& field,
               google::protobuf::Message& message) {
  std::string text(answer.json);
  if (!field.empty()) text = "{\"" + field + "\":" + text + "}";
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  return google::protobuf::util::JsonStringToMessage(text, &message, options).ok();
}

bool read_outputs(const HttpAnswer& answer, ::inference::ModelInferResponse& response) {
  try {
    const auto head = json::parse(answer.json);
    response.set_model_name(head.value("model_name", ""));
    response.set_model_version(head.value("model_version", ""));
    response.set_id(head.value("id", ""));
    auto binary = answer.binary;
    for (const auto& output : head.at("outputs")) {
      if (!add_output(output, binary, response)) return false;
    }
    return binary.empty();
  } catch (const json::exception&) {
    return false;
  }
}

std::string error_of(const HttpAnswer& answer) {
  const auto value = json::parse(answer.json, nullptr, /*allow_exceptions=*/false);
  if (value.is_object() && value.contains("error") && value["error"].is_string())
    return value["error"].get<std::string>();
  return "status " + std::to_string(answer.status);
}

}  // namespace fovea::serve::rpc
