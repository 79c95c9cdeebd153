// YAML of other programs: any bytes are read or refused with a ConfigError, in bounded memory.
#include <cstdint>

#include "fovea/config/foreign_yaml.h"
#include "fovea/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fovea::parse_foreign_yaml({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const fovea::ConfigError&) {
  }
  return 0;
}
