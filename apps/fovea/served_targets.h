// TARGET[=NAME], as `fovea serve` takes models.
#pragma once

#include <string>

namespace fovea::app {

struct ServedTarget {
  std::string target;
  std::string name;
};

// Without a name, that of the target's file or folder, or of its preset: "runs/flowers/" is
// flowers, "hf-hub:timm/vit_tiny@main" vit_tiny.
ServedTarget served_target(const std::string& word);

}  // namespace fovea::app
