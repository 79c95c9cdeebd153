// Pickles: any bytes are read as plain data and arrays, or refused with a DataError.
#include "fovea/core/error.h"
#include "fovea/data/datasets/numpy_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const fovea::Pickle pickle({bytes, size}, "fuzz", {.names = fovea::data::numpy_pickle_names()});
    if (const auto* data = pickle.root().find("data")) fovea::data::numpy_array(*data, "fuzz");
  } catch (const fovea::DataError&) {
  }
  return 0;
}
