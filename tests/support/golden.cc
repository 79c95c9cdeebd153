#include "tests/support/golden.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::support {
namespace {

at::ScalarType dtype_of(const std::string& name) {
  if (name == "F64") return at::kDouble;
  if (name == "F32") return at::kFloat;
  if (name == "BF16") return at::kBFloat16;
  if (name == "I64") return at::kLong;
  fail("golden tensor of dtype {}", name);
}

}  // namespace

NamedTensors Golden::group(const std::string& name) const {
  NamedTensors members;
  const auto prefix = name + "/";
  for (const auto& [full_name, tensor] : tensors) {
    if (full_name.rfind(prefix, 0) == 0) members[full_name.substr(prefix.size())] = tensor;
  }
  return members;
}

const at::Tensor& Golden::at(const std::string& name) const {
  const auto found = tensors.find(name);
  FOVEA_CHECK(found != tensors.end(), "the golden file has no tensor {}", name);
  return found->second;
}

std::string golden_path(const std::string& file) {
  return std::string(FOVEA_SOURCE_DIR) + "/tests/golden/" + file;
}

// A reader of trusted files only, apart from the product's own, which it helps to test.
Golden load_golden(const std::string& file) {
  std::ifstream stream(golden_path(file), std::ios::binary);
  FOVEA_CHECK(stream.good(), "{} cannot be read; make it with tools/golden", golden_path(file));
  const std::vector<char> bytes(std::istreambuf_iterator<char>(stream), {});
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const auto* data = bytes.data() + 8 + header_bytes;
  const auto header = nlohmann::json::parse(bytes.data() + 8, data);
  Golden golden;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      golden.config = nlohmann::json::parse(entry.value("config", "{}"));
      continue;
    }
    const auto tensor = at::empty(entry["shape"].get<std::vector<int64_t>>(),
                                  dtype_of(entry["dtype"].get<std::string>()));
    std::memcpy(tensor.mutable_data_ptr(), data + entry["data_offsets"][0].get<size_t>(),
                tensor.nbytes());
    golden.tensors[name] = tensor;
  }
  return golden;
}

}  // namespace fovea::support
