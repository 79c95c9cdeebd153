#include "tests/support/golden.h"

#include "fovea/core/error.h"
#include "fovea/files/safetensors.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::support {

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

Golden load_golden(const std::string& file) {
  const auto opened = SafetensorsFile::open(golden_path(file));
  Golden golden;
  const auto config = opened.metadata().find("config");
  if (config != opened.metadata().end()) golden.config = nlohmann::json::parse(config->second);
  for (const auto& entry : opened.entries()) golden.tensors[entry.name] = nn::to_tensor(entry);
  return golden;
}

}  // namespace fovea::support
