// MAT-files: any bytes are read or refused with a DataError.
#include "fovea/core/error.h"
#include "fovea/data_tools/prepare/matlab.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    for (const auto& variable : fovea::data::parse_matlab({bytes, size}, "fuzz.mat")) {
      if (variable.kind != fovea::data::MatlabArray::Kind::kStruct) continue;
      for (int64_t i = 0; i < variable.size(); ++i) {
        for (const auto& field : variable.fields) variable.field(i, field);
      }
    }
  } catch (const fovea::DataError&) {
  }
  return 0;
}
