#include "fovea/elastic/recording.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/journal.h"
#include "fovea/files/lines.h"
#include "fovea/files/record_json.h"

namespace fovea::elastic {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostBytesOfLine = uint64_t{1} << 20;

void each_line_of(const fs::path& path,
                  const std::function<void(const std::string&, const std::string&)>& take) {
  if (!is_there(path)) {
    fail<DataError>("{}: no such file; expected the folder of an elastic run", path.string());
  }
  each_whole_line(path.string(), kMostBytesOfLine, take);
}

// Of a time or a number that a run can have.
bool is_sound(double value, double low) {
  constexpr double kMost = 1e12;
  return std::isfinite(value) && value >= low && value <= kMost;
}

std::optional<StepsLine> steps_line(const JsonValue& line) {
  const auto rate = line.find("images_per_second"), generation = line.find("generation");
  if (!rate || !generation || line.at("split").text() != "train") return {};
  const double batch = line.at("global_batch").number(), step = line.at("step").number();
  const double time = line.at("time").number(), per_second = rate->number();
  const bool is_good = is_sound(batch, 1) && is_sound(step, 1) && is_sound(time, 1) &&
                       is_sound(per_second, 1e-6) && is_sound(generation->number(), 1);
  if (!is_good) line.refuse("a step, a generation, a batch, a time and images a second above 0");
  return StepsLine{.step = std::llround(step),
                   .generation = std::llround(generation->number()),
                   .global_batch = std::llround(batch),
                   .step_s = batch / per_second,
                   .time = time};
}

void check_event(const Event& event, const std::string& source) {
  const auto is_row_count = [](int64_t rows) { return is_sound(static_cast<double>(rows), 0); };
  const bool has_rows = event.rows.size() == event.workers.size() && !event.workers.empty() &&
                        std::all_of(event.rows.begin(), event.rows.end(), is_row_count);
  if (!is_sound(event.time, 1) || !is_sound(event.pause_s, 0) || !has_rows) {
    fail<DataError>("{}: no time, or no rows of each worker; an older version wrote it", source);
  }
  for (const auto& time : event.measured) {
    if (is_row_count(time.rows) && is_sound(time.own_ms, 0) && is_sound(time.comm_ms, 0)) continue;
    fail<DataError>("{}: measured: of worker {}: expected rows and times from 0", source,
                    printable_start(time.worker));
  }
  for (const auto& worker : event.workers) check_name("worker", worker);
}

// What was done again after a loss stands twice: the later one counts.
void add_line(Recording& run, StepsLine line) {
  auto& lines = run.lines;
  while (!lines.empty() && lines.back().step >= line.step) lines.pop_back();
  const auto before = lines.empty() ? run.events.front().step : lines.back().step;
  line.steps = std::max<int64_t>(0, line.step - before);
  // No longer than between two lines: the last batch of an epoch is a small one, of which as many
  // images a second are no whole batch's time.
  if (!lines.empty() && lines.back().generation == line.generation) {
    const double passed_s = line.time - lines.back().time;
    if (passed_s > 0) {
      line.step_s = std::min(line.step_s, passed_s / static_cast<double>(line.steps));
    }
  }
  line.samples = (lines.empty() ? 0 : lines.back().samples) +
                 static_cast<double>(line.steps) * static_cast<double>(line.global_batch);
  lines.push_back(line);
}

}  // namespace

Recording read_recording(const fs::path& run_dir) {
  Recording found;
  each_line_of(run_dir / kEventsFile, [&](const std::string& line, const std::string& source) {
    auto event = from_json<Event>(line, source);
    check_event(event, source);
    if (event.reason == "start") found.events.clear();
    found.events.push_back(std::move(event));
  });
  if (found.events.empty()) fail<DataError>("{}: no events", run_dir.string());
  const auto& first = found.events.front();
  const auto take = [&](const std::string& text, const std::string& source) {
    const auto raw = parse_json(text, source, 4);
    const JsonValue line(raw, source);
    const auto time = line.find("time");
    if (!time || time->number() < first.time) return;
    if (!is_sound(time->number(), 1)) time->refuse("seconds since 1970");
    found.end = std::max(found.end, time->number());
    if (const auto steps = steps_line(line); steps && steps->generation >= first.generation) {
      add_line(found, *steps);
    }
  };
  each_line_of(run_dir / "metrics.jsonl", take);
  if (found.lines.empty() || found.lines.back().samples <= 0) {
    fail<DataError>("{}: no steps with times; expected an elastic run that has trained",
                    run_dir.string());
  }
  return found;
}

bool is_failure(const Event& event) {
  return event.reason == "death" || event.reason == "hang" || event.reason == "network";
}

}  // namespace fovea::elastic
