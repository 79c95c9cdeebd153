// The file of ranges of calibrated int8: any bytes are read or refused with a DataError, and what
// was read is written and read as the same.
#include <cstdlib>
#include <string>

#include "fovea/core/error.h"
#include "fovea/train/recipe/int8_ranges.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  using fovea::train::format_int8_ranges, fovea::train::parse_int8_ranges;
  try {
    const auto ranges = parse_int8_ranges(text, "fuzz");
    if (parse_int8_ranges(format_int8_ranges(ranges), "fuzz") != ranges) std::abort();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
