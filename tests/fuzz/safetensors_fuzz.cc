// safetensors files: any bytes are read or refused with a DataError, and every byte of a tensor
// that is listed can be read.
#include "fovea/core/error.h"
#include "fovea/core/safetensors.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static volatile unsigned sink;
  const fovea::fuzz::MemoryFile memory(bytes, size);
  try {
    const auto file = fovea::SafetensorsFile::open(memory.path());
    unsigned sum = 0;
    for (const auto& entry : file.entries()) {
      for (const auto byte : entry.bytes) sum += static_cast<unsigned>(byte);
    }
    sink = sum;
  } catch (const fovea::DataError&) {
  }
  return 0;
}
