// Tar archives: any bytes are walked over, or refused with a DataError; entries lie in the archive.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/data/archive/tar.h"
#include "fovea/data/archive/wds_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::MemorySource source("fuzz.tar", {bytes, bytes + size});
  try {
    fovea::data::TarReader reader(source);
    while (const auto entry = reader.next()) {
      if (entry->offset > size || entry->size > size - entry->offset) abort();
      const auto name = "/" + entry->name + "/";
      if (entry->name.starts_with('/') || name.find("/../") != std::string::npos) abort();
    }
  } catch (const fovea::DataError&) {
  }
  try {
    const auto index = fovea::data::build_wds_index(source);
    const auto text = fovea::data::format_wds_index(index);
    if (fovea::data::parse_wds_index(text, "fuzz.idx", size).size() != index.size()) abort();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
