// The lists of sizes and ranges beside a data set: any bytes are read or refused with a DataError,
// and what was read is written and read as the same.
#include <cstdlib>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/data/volume/known_ranges.h"
#include "fovea/data/volume/known_sizes.h"

namespace {

template <class Value>
void read_and_write(std::string_view text) {
  using fovea::data::format_known, fovea::data::parse_known;
  try {
    const auto known = parse_known<Value>(text, "fuzz");
    if (parse_known<Value>(format_known(known), "fuzz") != known) std::abort();
  } catch (const fovea::DataError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  read_and_write<fovea::data::VolumeSize>(text);
  read_and_write<fovea::data::ValueRange>(text);
  return 0;
}
