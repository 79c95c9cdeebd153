// DICOM files: any bytes are read or refused with a DataError, and the header alone says the same
// as the whole.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/data/volume/dicom.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const auto whole = fovea::data::parse_dicom({bytes, size}, "fuzz");
    const auto header = fovea::data::parse_dicom_header({bytes, size}, size, "fuzz");
    if (header.rows != whole.rows || header.columns != whole.columns ||
        header.position != whole.position || header.slope != whole.slope) {
      std::abort();
    }
  } catch (const fovea::DataError&) {
  }
  try {  // of a file that goes on
    fovea::data::parse_dicom_header({bytes, size}, size + 1000, "fuzz");
  } catch (const fovea::DataError&) {
  }
  return 0;
}
