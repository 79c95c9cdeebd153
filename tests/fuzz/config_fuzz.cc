// Recipes: any text is read or refused with a ConfigError; what is read prints and parses back.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fovea/core/config.h"
#include "fovea/core/error.h"
#include "fovea/data/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  // The first line is an override, the rest the file.
  const std::string_view input(reinterpret_cast<const char*>(bytes), size);
  const auto line = input.substr(0, input.find('\n'));
  const auto yaml = line.size() == size ? std::string_view() : input.substr(line.size() + 1);
  try {
    const auto config =
        fovea::parse_config<fovea::data::DataConfig>(yaml, "fuzz.yaml", {std::string(line)});
    const auto text = fovea::dump_config(config);
    const auto again = fovea::parse_config<fovea::data::DataConfig>(text, "dump.yaml");
    if (fovea::dump_config(again) != text) std::abort();
  } catch (const fovea::ConfigError&) {
  }
  return 0;
}
