// What a stranger sends to the store in which ranks meet: any bytes are refused with a DataError,
// waited on, or taken as requests, each of which is written as what was read; no name and no value
// is longer than they may be.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/parallel/store_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace fovea::parallel;
  const std::string all(reinterpret_cast<const char*>(bytes), size);
  std::string left = all;
  try {
    while (!left.empty()) {
      const auto before = left;
      const auto request = take_request(left);
      if (!request) break;
      if (to_wire(*request) + left != before) abort();
      for (const auto& key : request->keys) {
        if (key.size() > kMaxKeyBytes) abort();
      }
      for (const auto& value : request->values) {
        if (value.size() > kMaxValueBytes) abort();
      }
    }
  } catch (const fovea::DataError&) {
  }
  return 0;
}
