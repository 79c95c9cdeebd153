// Profiles, ours and JABAS's: any bytes are read, or refused with a DataError; what was read of
// ours is written and read back as it is, and steps predicted by it take a time from 0.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/elastic/solve/jabas_profile.h"
#include "fovea/elastic/solve/profile.h"
#include "fovea/elastic/solve/step_model.h"
#include "fovea/files/record_json.h"

namespace {

using namespace fovea::elastic;

template <class Record>
void comes_back(const Record& record, Record (*parse)(std::string_view, const std::string&)) {
  const auto written = fovea::json_text(fovea::record_json(record));
  if (fovea::json_text(fovea::record_json(parse(written, "fuzz"))) != written) std::abort();
}

void predicts(const DeviceProfile& device) {
  int64_t samples = 0;
  for (const auto& point : device.computation) samples += point.local_batch * point.concurrent;
  if (samples > 1 << 14) return;  // tables of them take long
  const DeviceModel model(device, WeightSync::kOverlap, 0.5);
  double before = 0;
  for (int64_t share = 1; share < 100; ++share) {
    const double ms = model.milliseconds(share, {.before_last = 1, .last = 1});
    if (!(ms >= before * (1 - 1e-9))) std::abort();
    before = ms;
  }
}

template <class Body>
void attempt(Body body) {
  try {
    body();
  } catch (const fovea::DataError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  attempt([&] {
    const auto device = parse_device_profile(text, "fuzz");
    comes_back(device, parse_device_profile);
    predicts(device);
  });
  attempt([&] { comes_back(parse_bucket_profile(text, "fuzz"), parse_bucket_profile); });
  attempt(
      [&] { comes_back(parse_communication_profile(text, "fuzz"), parse_communication_profile); });
  attempt([&] { parse_jabas_computation(text, "fuzz"); });
  attempt([&] { parse_jabas_memory(text, "fuzz"); });
  attempt([&] { parse_jabas_buckets(text, "fuzz"); });
  attempt([&] { parse_jabas_communication(text, "fuzz"); });
  return 0;
}
