// What the keys of an elastic run and its files hold: any bytes are read, or refused with a
// DataError; what was read is written and read back as it is.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/elastic/control/records.h"

namespace {

template <class Record>
void try_to_read(std::string_view text) {
  try {
    const auto written = fovea::elastic::to_json(fovea::elastic::from_json<Record>(text, "fuzz"));
    if (fovea::elastic::to_json(fovea::elastic::from_json<Record>(written, "fuzz")) != written) {
      std::abort();
    }
  } catch (const fovea::DataError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_to_read<fovea::elastic::Plan>(text);
  try_to_read<fovea::elastic::WorkerRecord>(text);
  try_to_read<fovea::elastic::Request>(text);
  try_to_read<fovea::elastic::Commit>(text);
  try_to_read<fovea::elastic::Event>(text);
  try_to_read<fovea::elastic::SampleLine>(text);
  return 0;
}
