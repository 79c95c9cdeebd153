#include "fovea/track/tracked_run.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/core/json.h"
#include "fovea/core/text.h"
#include "fovea/core/write_error.h"
#include "fovea/files/atomic_file.h"

namespace fovea::track {
namespace {

constexpr uint64_t kMostStateBytes = 1 << 20;

std::string drawn_mark() {
  std::random_device device;
  std::string mark;
  for (int i = 0; i < 4; ++i) mark += fmt::format("{:08x}", device());
  return mark;
}

TrackedRun tracked_run_of(const JsonValue& value) {
  TrackedRun run{.mark = value.at("mark").text(),
                 .uri = value.at("uri").text(),
                 .experiment_id = value.at("experiment_id").text(),
                 .run_id = value.at("run_id").text()};
  for (const auto& [split, step] : value.at("sent").members()) run.sent[split] = step.integer();
  for (const auto& [name, stamp] : value.at("files").members()) run.files[name] = stamp.text();
  // It goes into a search.
  if (run.mark.empty() || !is_hexadecimal(run.mark)) {
    value.at("mark").refuse("hexadecimal digits");
  }
  return run;
}

}  // namespace

TrackedRun read_tracked_run(const std::filesystem::path& run_dir) {
  const auto path = (run_dir / kTrackedRunFile).string();
  if (!is_there(path)) return {.mark = drawn_mark()};
  try {
    const auto parsed = parse_json(read_file(path, kMostStateBytes), path);
    return tracked_run_of(JsonValue(parsed, path));
  } catch (const DataError& error) {
    fail<DataError>("{}; remove it, and another run of MLflow begins with all of the metrics",
                    error.what());
  }
}

void write_tracked_run(const std::filesystem::path& run_dir, const TrackedRun& run) {
  const nlohmann::ordered_json json = {{"uri", run.uri},       {"experiment_id", run.experiment_id},
                                       {"run_id", run.run_id}, {"mark", run.mark},
                                       {"sent", run.sent},     {"files", run.files}};
  write_file_atomic((run_dir / kTrackedRunFile).string(), json_text(json, 2) + "\n");
}

SenderLock::SenderLock(const std::filesystem::path& run_dir) {
  const auto name = (run_dir / ".mlflow.lock").string();
  check_output_file(name);
  file_.emplace(name, O_CREAT | O_RDWR);
  if (file_->is_open()) return;
  fail<WriteError>(
      "{}: cannot be written: {}; what is sent is noted in the run folder, to which you need to be "
      "allowed to write",
      name, std::strerror(errno));
}

bool SenderLock::try_lock() {
  is_held_ = is_held_ || file_->try_lock();
  return is_held_;
}

}  // namespace fovea::track
