// Safetensors: any bytes are read or refused with a DataError; every byte that is promised can be
// read.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/files/safetensors.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile memory(bytes, size);
  try {
    const auto file = fovea::SafetensorsFile::open(memory.path());
    uint64_t total = 0;
    unsigned sum = 0;
    for (const auto& entry : file.entries()) {
      for (const std::byte byte : entry.bytes) sum += static_cast<unsigned>(byte);
      total += entry.bytes.size();
      if (file.find(entry.name) == nullptr) abort();
    }
    volatile unsigned sink = sum;
    static_cast<void>(sink);
    const auto preamble = fovea::safetensors_preamble(file.entries(), file.metadata());
    const auto again = fovea::parse_safetensors_header(std::string_view(preamble).substr(8), total,
                                                       "written again");
    if (again.entries.size() != file.entries().size() || again.metadata != file.metadata()) abort();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
