// The list of sizes beside a data set: any bytes are read or refused with a DataError, and what was
// read is written and read as the same.
#include <cstdlib>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/data/volume/known_sizes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const auto known =
        fovea::data::parse_known_sizes({reinterpret_cast<const char*>(bytes), size}, "fuzz");
    const auto again =
        fovea::data::parse_known_sizes(fovea::data::format_known_sizes(known), "fuzz");
    if (again != known) std::abort();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
