#include "fovea/serve/protocol/infer_request.h"

#include <cstring>
#include <set>
#include <utility>

#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;  // data of a volume in lists of lists: 9
constexpr size_t kMaxTensors = 64;
constexpr size_t kMaxDims = 16;
constexpr size_t kMaxName = 256;  // of what a client names, in bytes

std::string short_text(const JsonValue& value) {
  auto text = value.text();
  if (text.size() > kMaxName)
    fail_with(400, "{}: {} bytes; expected at most {}", value.where(), text.size(), kMaxName);
  return text;
}

// A parameter of a tensor or of the request; null where there is none.
const json* parameter(const json& holder, const char* name) {
  const auto parameters = holder.find("parameters");
  if (parameters == holder.end() || !parameters->is_object()) return nullptr;
  const auto found = parameters->find(name);
  return found == parameters->end() ? nullptr : &*found;
}

std::optional<int64_t> count_parameter(const JsonValue& holder, const char* name) {
  const auto* value = parameter(holder.raw(), name);
  if (value == nullptr) return std::nullopt;
  const int64_t count = JsonValue(*value, holder.where() + ".parameters." + name).integer();
  if (count < 0)
    fail_with(400, "{}.parameters.{}: {}; expected a number from 0", holder.where(), name, count);
  return count;
}

bool flag_parameter(const JsonValue& holder, const char* name, bool otherwise) {
  const auto* value = parameter(holder.raw(), name);
  if (value == nullptr) return otherwise;
  return JsonValue(*value, holder.where() + ".parameters." + name).boolean();
}

// Numbers of lists in lists, one after another.
void gather_numbers(const json& data, const std::string& where, std::string& out) {
  if (data.is_array()) {
    for (const auto& item : data) gather_numbers(item, where, out);
    return;
  }
  if (!data.is_number()) JsonValue(data, where).refuse("a number");
  const auto value = data.get<float>();
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// What stands in the JSON itself.
void take_json_data(const JsonValue& value, InputTensor& tensor) {
  const auto data = value.find("data");
  if (!data)
    fail_with(400, "{}: no data; expected `data`, or `binary_data_size` among its parameters",
              value.where());
  if (tensor.datatype == "BYTES") {
    fail_with(
        400,
        "{}: files as text of JSON, which holds no binary data; expected them behind the JSON "
        "(binary_data_size, as set_data_from_numpy of Triton's clients does)",
        value.where());
  }
  if (tensor.datatype != "FP32") {
    fail_with(400, "{}: {} as numbers of JSON; expected FP32, or binary data (binary_data_size)",
              value.where(), printable_start(tensor.datatype));
  }
  std::string bytes;
  gather_numbers(data->raw(), data->where(), bytes);
  tensor.owner = std::make_shared<const std::string>(std::move(bytes));
  tensor.bytes = *tensor.owner;
}

// The tensors' bytes behind the JSON, in their order.
class BinaryPart {
 public:
  BinaryPart(const std::shared_ptr<const std::string>& body, std::optional<uint64_t> json_length)
      : body_(body), is_there_(json_length), place_(json_length.value_or(body->size())) {}

  void take(const JsonValue& value, int64_t size, InputTensor& tensor) {
    if (!is_there_) {
      fail_with(400,
                "{}: {} bytes of binary data, but the request has no header "
                "Inference-Header-Content-Length; expected it with the length of the JSON",
                value.where(), size);
    }
    const uint64_t left = body_->size() - place_;
    if (static_cast<uint64_t>(size) > left) {
      fail_with(400, "{}: {} bytes of binary data, but {} are left of the body; expected as many",
                value.where(), size, left);
    }
    tensor.owner = body_;
    tensor.bytes = std::string_view(*body_).substr(place_, static_cast<size_t>(size));
    place_ += static_cast<uint64_t>(size);
  }

  void finish() const {
    if (place_ == body_->size()) return;
    fail_with(400,
              "{} bytes stand behind the last tensor; expected none: binary_data_size of the "
              "inputs adds up to less than the body",
              body_->size() - place_);
  }

 private:
  const std::shared_ptr<const std::string>& body_;
  bool is_there_;
  uint64_t place_;
};

// The items of a list, which are looked at when it is known that they are few.
std::vector<JsonValue> few_items(const JsonValue& value, size_t most) {
  if (value.raw().is_array() && value.raw().size() > most) {
    fail_with(400, "{}: {} items; expected at most {}", value.where(), value.raw().size(), most);
  }
  return value.items();
}

InputTensor read_input(const JsonValue& value, BinaryPart& binary) {
  InputTensor tensor;
  tensor.name = short_text(value.at("name"));
  tensor.datatype = short_text(value.at("datatype"));
  for (const auto& side : few_items(value.at("shape"), kMaxDims))
    tensor.shape.push_back(side.integer());
  if (parameter(value.raw(), "shared_memory_region") != nullptr) {
    fail_with(400,
              "{}: shared memory; expected the data in the request: this server has no such "
              "extension",
              value.where());
  }
  if (const auto size = count_parameter(value, "binary_data_size")) {
    if (value.find("data"))
      fail_with(400, "{}: `data` and `binary_data_size`; expected one of them", value.where());
    binary.take(value, *size, tensor);
  } else {
    take_json_data(value, tensor);
  }
  check_size(value.where(), tensor);
  return tensor;
}

OutputRequest read_output(const JsonValue& value, bool is_binary) {
  if (parameter(value.raw(), "shared_memory_region") != nullptr) {
    fail_with(400,
              "{}: shared memory; expected the answer in the response: this server has no such "
              "extension",
              value.where());
  }
  return {.name = short_text(value.at("name")),
          .is_binary = flag_parameter(value, "binary_data", is_binary),
          .classification = count_parameter(value, "classification").value_or(0)};
}

template <class Tensor>
void check_names(const std::vector<Tensor>& tensors, std::string_view what) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    fail_with(400, "{} '{}' stands in the request twice; expected it once", what,
              printable_start(tensor.name));
  }
}

// What of Triton's extensions about order changes an answer, and is not here.
void refuse_orders(const JsonValue& request) {
  for (const char* name : {"priority", "sequence_id"}) {
    const auto* value = parameter(request.raw(), name);
    if (value == nullptr || *value == 0 || *value == "") continue;
    fail_with(400, "parameters.{}: {}; expected none: requests have no {} here", name,
              printable_start(json_text(*value)),
              std::string_view(name) == "priority" ? "priorities" : "sequences");
  }
}

// A whole body that is one file.
InferRequest raw_request(std::shared_ptr<const std::string> body) {
  const auto size = static_cast<uint32_t>(body->size());
  if (size != body->size())
    fail_with(400, "a file of {} bytes; expected less than 4 GiB", body->size());
  std::string element(sizeof(size), '\0');
  std::memcpy(element.data(), &size, sizeof(size));
  element += *body;
  InputTensor tensor{
      .name = "image", .datatype = "BYTES", .shape = {1, 1}, .bytes = {}, .owner = {}};
  tensor.owner = std::make_shared<const std::string>(std::move(element));
  tensor.bytes = *tensor.owner;
  InferRequest request;
  request.inputs.push_back(std::move(tensor));
  return request;
}

}  // namespace

bool InferRequest::flag(std::string_view name) const {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return false;
  if (!found->is_boolean())
    fail_with(400, "parameters.{}: expected true or false", printable_start(name));
  return found->get<bool>();
}

InferRequest read_infer_request(std::shared_ptr<const std::string> body,
                                std::optional<uint64_t> json_length) {
  if (json_length == uint64_t{0}) return raw_request(std::move(body));
  if (json_length.value_or(0) > body->size()) {
    fail_with(
        400,
        "Inference-Header-Content-Length is {}, but the body has {} bytes; expected at most these",
        *json_length, body->size());
  }
  const auto head = std::string_view(*body).substr(0, json_length.value_or(body->size()));
  const json parsed = parse_json(head, "the request", kMaxDepth);
  const JsonValue value(parsed, "the request");
  InferRequest request;
  if (const auto id = value.find("id")) request.id = short_text(*id);
  if (const auto parameters = value.find("parameters")) {
    if (!parameters->raw().is_object()) parameters->refuse("an object");
    request.parameters = parameters->raw();
  }
  refuse_orders(value);
  request.is_output_binary = flag_parameter(value, "binary_data_output", false);
  request.timeout_microseconds = count_parameter(value, "timeout");
  BinaryPart binary(body, json_length);
  for (const auto& input : few_items(value.at("inputs"), kMaxTensors)) {
    request.inputs.push_back(read_input(input, binary));
  }
  binary.finish();
  if (const auto outputs = value.find("outputs")) {
    for (const auto& output : few_items(*outputs, kMaxTensors)) {
      request.outputs.push_back(read_output(output, request.is_output_binary));
    }
  }
  check_names(request.inputs, "input");
  check_names(request.outputs, "output");
  return request;
}

}  // namespace fovea::serve
