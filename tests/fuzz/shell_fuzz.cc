// Scripts of a shell: any bytes are expanded or refused with a ConfigError, in bounded memory.
#include <cstdint>
#include <string>

#include "fovea/core/error.h"
#include "fovea/recipe_import/shell.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fovea::recipe_import::run_shell({reinterpret_cast<const char*>(data), size}, "fuzz.sh");
  } catch (const fovea::ConfigError&) {
  }
  return 0;
}
