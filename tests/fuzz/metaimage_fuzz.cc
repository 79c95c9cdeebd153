// MetaImage files: any bytes are read or refused with a DataError, and a region of what is read has
// the same numbers.
#include "fovea/data/volume/metaimage_file.h"
#include "tests/fuzz/volume_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  fovea::fuzz::check_scan(bytes, size, &fovea::data::open_metaimage);
  return 0;
}
