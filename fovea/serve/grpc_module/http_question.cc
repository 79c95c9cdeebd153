#include "fovea/serve/grpc_module/http_question.h"

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

namespace fovea::serve::rpc {
namespace {

using ::inference::InferParameter;
using ::inference::ModelInferRequest;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors come in little-endian order");

std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json value_of(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return parameter.bool_param();
    case InferParameter::kInt64Param:
      return parameter.int64_param();
    case InferParameter::kStringParam:
      return parameter.string_param();
    case InferParameter::kDoubleParam:
      return parameter.double_param();
    case InferParameter::kUint64Param:
      return parameter.uint64_param();
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return nullptr;
}

template <class Parameters>
json parameters_json(const Parameters& parameters) {
  auto all = json::object();
  for (const auto& [name, parameter] : parameters) {
    auto value = value_of(parameter);
    if (!value.is_null()) all[name] = std::move(value);
  }
  return all;
}

// Of BYTES: each with its length in front.
std::string elements_of(const ::inference::InferTensorContents& contents) {
  std::string bytes;
  for (const auto& element : contents.bytes_contents()) {
    const auto size = static_cast<uint32_t>(element.size());  // a message is smaller than 2 GiB
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += element;
  }
  return bytes;
}

// An input's bytes where the message has no raw ones.
std::string_view typed_bytes(const ModelInferRequest::InferInputTensor& input,
                             HttpQuestion& question) {
  const auto& contents = input.contents();
  if (input.datatype() == "BYTES") return question.made.emplace_back(elements_of(contents));
  if (input.datatype() == "FP32") {
    const auto& numbers = contents.fp32_contents();
    return {reinterpret_cast<const char*>(numbers.data()),
            static_cast<size_t>(numbers.size()) * sizeof(float)};
  }
  if (input.has_contents() && question.refused.empty()) {
    question.refused = "input '" + input.name() + "': `contents` of " + input.datatype() +
                       "; expected FP32 or BYTES there, or the input in `raw_input_contents`";
  }
  return {};
}

std::string_view input_bytes(const ModelInferRequest& message, int i, HttpQuestion& question) {
  if (message.raw_input_contents_size() == 0) return typed_bytes(message.inputs(i), question);
  if (message.inputs(i).has_contents() && question.refused.empty()) {
    question.refused = "input '" + message.inputs(i).name() +
                       "': `contents` beside `raw_input_contents`; expected one of them";
  }
  return message.raw_input_contents(i);
}

json inputs_json(const ModelInferRequest& message, HttpQuestion& question) {
  auto list = json::array();
  for (int i = 0; i < message.inputs_size(); ++i) {
    const auto& input = message.inputs(i);
    const auto bytes = input_bytes(message, i, question);
    auto parameters = parameters_json(input.parameters());
    parameters["binary_data_size"] = bytes.size();
    list.push_back({{"name", input.name()},
                    {"datatype", input.datatype()},
                    {"shape", std::vector<int64_t>(input.shape().begin(), input.shape().end())},
                    {"parameters", std::move(parameters)}});
    question.binary.push_back(bytes);
  }
  return list;
}

json outputs_json(const ModelInferRequest& message) {
  auto list = json::array();
  for (const auto& output : message.outputs()) {
    auto parameters = parameters_json(output.parameters());
    parameters["binary_data"] = true;
    list.push_back({{"name", output.name()}, {"parameters", std::move(parameters)}});
  }
  return list;
}

// The names of parameters are what the server looks at.
template <class Message>
HttpQuestion control_question(const Message& message, const char* action) {
  HttpQuestion question;
  question.method = "POST";
  question.path = "/v2/repository/models/" + message.model_name() + "/" + action;
  if (message.model_name().find('/') != std::string::npos)
    question.refused = "a model's name has no /; expected one of RepositoryIndex";
  auto parameters = json::object();
  for (const auto& [name, parameter] : message.parameters()) parameters[name] = true;
  if (!parameters.empty()) question.body = text_of({{"parameters", std::move(parameters)}});
  return question;
}

}  // namespace

HttpQuestion model_question(const std::string& name, const std::string& version,
                            const std::string& action) {
  HttpQuestion question;
  question.path = "/v2/models/" + name;
  if (!version.empty()) question.path += "/versions/" + version;
  if (!action.empty()) question.path += "/" + action;
  if (name.find('/') != std::string::npos || version.find('/') != std::string::npos)
    question.refused = "a model's name or version has no /; expected one of RepositoryIndex";
  return question;
}

HttpQuestion infer_question(const ModelInferRequest& message) {
  auto question = model_question(message.model_name(), message.model_version(), "infer");
  question.method = "POST";
  question.has_binary = true;
  const int num_raw = message.raw_input_contents_size();
  if (num_raw != 0 && num_raw != message.inputs_size()) {
    question.refused = std::to_string(num_raw) + " raw_input_contents of " +
                       std::to_string(message.inputs_size()) +
                       " inputs; expected one for each, or none and `contents`";
    return question;
  }
  json head = {{"parameters", parameters_json(message.parameters())}};
  head["parameters"]["binary_data_output"] = true;
  head["inputs"] = inputs_json(message, question);
  if (message.outputs_size() > 0) head["outputs"] = outputs_json(message);
  if (!message.id().empty()) head["id"] = message.id();
  question.body = text_of(head);
  return question;
}

HttpQuestion index_question(const ::inference::RepositoryIndexRequest& message) {
  HttpQuestion question;
  question.method = "POST";
  question.path = "/v2/repository/index";
  question.body = text_of({{"ready", message.ready()}});
  return question;
}

HttpQuestion load_question(const ::inference::RepositoryModelLoadRequest& message) {
  return control_question(message, "load");
}

HttpQuestion unload_question(const ::inference::RepositoryModelUnloadRequest& message) {
  return control_question(message, "unload");
}

}  // namespace fovea::serve::rpc
