// Gzip: any bytes are unpacked up to the cap or refused with a DataError.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/files/input_stream.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr size_t kCap = 1 << 20;
  const fovea::fuzz::MemoryFile memory(bytes, size);
  try {
    if (fovea::read_gzip(memory.path(), kCap).size() > kCap) abort();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
