#include "fovea/train/evaluate/evaluation_parts.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::train {

using nlohmann::json;

std::string to_bytes(const json& value) {
  const auto bytes = json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

json json_from_bytes(const std::string& bytes) { return json::from_msgpack(bytes); }

json json_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  FOVEA_CHECK(tensor.scalar_type() == at::kDouble || tensor.scalar_type() == at::kLong,
              "a part of an evaluation in {}; expected float64 or int64",
              c10::toString(tensor.scalar_type()));
  const auto whole = tensor.to(at::kCPU).contiguous();
  const auto* first = static_cast<const uint8_t*>(whole.const_data_ptr());
  return {{"is_float", whole.is_floating_point()},
          {"shape", whole.sizes().vec()},
          {"data", json::binary({first, first + whole.nbytes()})}};
}

at::Tensor tensor_of(const json& value) {
  if (value.is_null()) return {};
  const auto tensor = at::empty(value.at("shape").get<std::vector<int64_t>>(),
                                value.at("is_float").get<bool>() ? at::kDouble : at::kLong);
  const auto& data = value.at("data").get_binary();
  FOVEA_CHECK(data.size() == tensor.nbytes(), "{} bytes of a tensor of {}", data.size(),
              tensor.nbytes());
  if (!data.empty()) std::memcpy(tensor.data_ptr(), data.data(), data.size());
  return tensor;
}

json json_of_bytes(const std::string& bytes) {
  return json::binary(std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

std::string bytes_of(const json& value) {
  const auto& data = value.get_binary();
  return {data.begin(), data.end()};
}

}  // namespace fovea::train
