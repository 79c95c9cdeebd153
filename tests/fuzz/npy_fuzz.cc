// NumPy arrays: any bytes are read or refused with a DataError; what is read has the size that its
// shape says.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/files/npy.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile memory(bytes, size);
  try {
    const auto array = fovea::read_npy(memory.path());
    uint64_t expected = static_cast<uint64_t>(array.dtype.at(2) - '0');
    for (const int64_t count : array.shape) expected *= static_cast<uint64_t>(count);
    if (expected != array.bytes.size()) abort();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
