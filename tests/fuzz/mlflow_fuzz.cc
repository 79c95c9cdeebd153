// What an MLflow server answers, and lines of metrics: any bytes are read, or refused with a
// DataError. What of them goes back to the server keeps to its rules.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/track/metric_file.h"
#include "fovea/track/mlflow_wire.h"

namespace {

using namespace fovea::track;

template <class Read>
void try_to_read(const Read& read) {
  try {
    read();
  } catch (const fovea::DataError&) {
  }
}

void check_name(std::string_view name) {
  const bool has_others = name.find_first_of("\"\\%\n") != name.npos;
  if (name.size() > kMostNameBytes || has_others || name.find("//") != name.npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_to_read([&] {
    const auto run = read_run(text, "fuzz");
    if (run.id.find('/') != run.id.npos) std::abort();
    const auto path = artifact_path(run.artifact_uri, "http://host", "x");
    if (path && (!path->starts_with('/') || path->find("/../") != path->npos)) std::abort();
  });
  try_to_read([&] { read_first_run(text, "fuzz"); });
  try_to_read([&] { read_experiment(text, "fuzz"); });
  try_to_read([&] { read_made_experiment(text, "fuzz"); });
  read_refusal(text);
  check_name(mlflow_name(text));
  if (const auto line = read_metric_line(text, 0)) {
    for (const auto& [name, value] : line->values) {
      check_name(name);
      const auto sent = fovea::json_text(metric_json(name, value, line->time_ms, line->step));
      if (sent.find("null") != sent.npos && name.find("null") == name.npos) std::abort();
    }
  }
  return 0;
}
