// Index files of WebDataset tars: any text is read or refused with a DataError; what is read lies
// in the tar, and is written back to what reads equal.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/data/archive/wds_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr uint64_t kTarBytes = 1 << 20;
  try {
    const auto index = fovea::data::parse_wds_index({reinterpret_cast<const char*>(bytes), size},
                                                    "fuzz.idx", kTarBytes);
    for (const auto& part : index.parts) {
      if (part.offset > kTarBytes || part.size > kTarBytes - part.offset) abort();
    }
    const auto text = fovea::data::format_wds_index(index);
    const auto again = fovea::data::parse_wds_index(text, "fuzz.idx", kTarBytes);
    if (again.parts.size() != index.parts.size()) abort();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
