#include "fovea/train/run/step_trace.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "fovea/core/log.h"
#include "fovea/core/trace.h"
#include "fovea/files/atomic_file.h"

namespace fovea::train {

StepTrace::StepTrace(std::filesystem::path folder, int64_t num_steps, parallel::World& world)
    : folder_(std::move(folder)), num_steps_(num_steps), world_(world) {}

void StepTrace::before_step() {
  steps_seen_ += 1;
  if (num_steps_ == 0 || steps_seen_ != 2) return;
  trace::start();
  is_recording_ = true;
}

void StepTrace::after_step() {
  if (is_recording_ && steps_seen_ == 1 + num_steps_) write();
}

void StepTrace::finish() {
  if (is_recording_) write();
}

void StepTrace::write() {
  is_recording_ = false;
  const auto spans = trace::stop();
  std::vector<std::string> paths;
  for (int64_t rank = 0; rank < world_.size(); ++rank) {
    paths.push_back((folder_ / fmt::format("trace.rank{}.json", rank)).string());
  }
  const auto& own = paths.at(static_cast<size_t>(world_.rank()));
  write_file_atomic(own, trace::to_chrome(spans, world_.rank()));
  world_.all().barrier("timelines");
  if (!world_.is_first()) return;
  const auto joined = (folder_ / "trace.json").string();
  write_file_atomic(joined, trace::merge_chrome(paths));
  log_info(
      fmt::format("{}: the timeline of {} steps; open it in chrome://tracing or "
                  "https://ui.perfetto.dev",
                  joined, num_steps_));
}

}  // namespace fovea::train
