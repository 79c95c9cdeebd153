// What etcd's gateway sends: any bytes are read as one of its replies, or refused with a DataError.
#include <cstdint>
#include <string>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/elastic/control/etcd_wire.h"

namespace {

template <class Read>
void try_to(Read read, std::string_view text) {
  try {
    read(text, std::string("fuzz"));
  } catch (const fovea::DataError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_to(fovea::elastic::read_range_reply, text);
  try_to(fovea::elastic::read_txn_reply, text);
  try_to(fovea::elastic::read_watch_reply, text);
  try_to(fovea::elastic::read_keep_alive_reply, text);
  try_to(fovea::elastic::read_login_reply, text);
  try_to(fovea::elastic::read_refusal, text);
  return 0;
}
