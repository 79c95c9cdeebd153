// Pickles: any bytes are read as plain data or refused with a DataError.
#include "fovea/core/error.h"
#include "fovea/core/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const fovea::data::Pickle pickle({bytes, bytes + size}, "fuzz");
    pickle.root().find("data");
  } catch (const fovea::DataError&) {
  }
  return 0;
}
