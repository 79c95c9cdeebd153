// Gin files: any bytes are read or refused with a ConfigError, and what is read is YAML.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "fovea/config/node.h"
#include "fovea/core/error.h"
#include "fovea/recipe_import/gin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto root = fovea::parse_gin(text, "fuzz.gin", [&](const std::string& name) {
      return name == "self" ? text : std::string("a.b = 1");
    });
    for (const auto& child : root.children) {
      if (fovea::emit_yaml_flow(child).empty()) std::abort();
    }
  } catch (const fovea::ConfigError&) {
  }
  return 0;
}
