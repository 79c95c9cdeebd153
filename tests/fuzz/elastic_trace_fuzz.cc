// Traces of a cluster, and the files that configure one: any bytes are read, or refused with an
// error that names them.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/elastic/solve/solve_config.h"
#include "fovea/elastic/solve/trace.h"

namespace {

using namespace fovea::elastic;

const Cluster& small_cluster() {
  static const Cluster cluster = {
      .hosts = {{"node0", {.type = "fast", .number = 4}}, {"node1", {.type = "slow"}}}};
  return cluster;
}

template <class Body>
void attempt(Body body) {
  try {
    body();
  } catch (const fovea::DataError& error) {
    if (std::string_view(error.what()).find("fuzz") == std::string_view::npos) std::abort();
  } catch (const fovea::ConfigError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  attempt([&] {
    double hour = 0;
    for (const auto& event : parse_trace(text, "fuzz", small_cluster()).events) {
      if (event.hour < hour || event.host > 1) std::abort();
      hour = event.hour;
    }
  });
  attempt([&] { parse_cluster(text, "fuzz", {}); });
  attempt([&] { parse_solve_config(text, "fuzz"); });
  return 0;
}
