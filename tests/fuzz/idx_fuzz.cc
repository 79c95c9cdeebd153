// IDX data sets, plain and gzip: any bytes are read or refused with a DataError.
#include "fovea/core/error.h"
#include "fovea/data/datasets/idx.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile file(bytes, size);
  fovea::data::IdxConfig config;
  config.images = file.path();
  try {
    const auto dataset = fovea::data::build_idx_dataset(config);
    fovea::data::Sample sample;
    dataset->read(0, sample);
    dataset->read(dataset->size() - 1, sample);
  } catch (const fovea::DataError&) {
  }
  return 0;
}
