// Reference tensors that tools/golden made with timm and torch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/parity.h"

namespace fovea::support {

struct Golden {
  nlohmann::json config;  // metadata "config"
  NamedTensors tensors;

  // The tensors whose names start with "<group>/", under the rest of their names.
  NamedTensors group(const std::string& name) const;
  const at::Tensor& at(const std::string& name) const;
};

// tests/golden/<file>.
std::string golden_path(const std::string& file);
Golden load_golden(const std::string& file);

}  // namespace fovea::support
