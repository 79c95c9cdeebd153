// DICOM files: any bytes are read or refused with a DataError, and the header alone says the same
// as the whole.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/data/volume/dicom.h"

// GDCM's codecs lose what they hold where a stream is damaged.
extern "C" const char* __lsan_default_suppressions() { return "leak:libgdcm\nleak:libopenjp2"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const auto whole = fovea::data::parse_dicom({bytes, size}, "fuzz");
    const auto header = fovea::data::parse_dicom_header({bytes, size}, size, "fuzz");
    if (header.size() != whole.size()) std::abort();
    for (size_t i = 0; i < whole.size(); ++i) {
      if (header[i].rows != whole[i].rows || header[i].columns != whole[i].columns ||
          header[i].position != whole[i].position || header[i].slope != whole[i].slope) {
        std::abort();
      }
    }
  } catch (const fovea::DataError&) {
  }
  try {  // of a file that goes on
    fovea::data::parse_dicom_header({bytes, size}, size + 1000, "fuzz");
  } catch (const fovea::DataError&) {
  }
  return 0;
}
