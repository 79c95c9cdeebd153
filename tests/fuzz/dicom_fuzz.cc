// DICOM files: any bytes are read or refused with a DataError.
#include "fovea/core/error.h"
#include "fovea/data/formats/dicom.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    fovea::data::parse_dicom({bytes, size}, "fuzz");
  } catch (const fovea::DataError&) {
  }
  return 0;
}
