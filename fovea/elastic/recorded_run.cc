#include "fovea/elastic/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/median.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/control/records.h"
#include "fovea/elastic/journal.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/lines.h"
#include "fovea/files/record_json.h"

namespace fovea::elastic {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostBytesOfLine = uint64_t{1} << 20;

// A line of metrics.jsonl of steps that were trained.
struct StepsLine {
  int64_t step = 0;  // after them
  int64_t generation = 0;
  int64_t global_batch = 0;
  double step_s = 0;   // of each
  double time = 0;     // since 1970
  int64_t steps = 0;   // since the line before
  double samples = 0;  // in whole batches, after them
};

struct Recording {
  std::vector<Event> events;
  std::vector<StepsLine> lines;
  double end = 0;  // since 1970
};

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
  line.samples = (lines.empty() ? 0 : lines.back().samples) +
                 static_cast<double>(line.steps) * static_cast<double>(line.global_batch);
  lines.push_back(line);
}

// Of a run that was stopped and gone on with: since the last time that it was.
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

double median_or_zero(const std::vector<double>& values) {
  return values.empty() ? 0 : fovea::median(values);
}

bool is_failure(const Event& event) {
  return event.reason == "death" || event.reason == "hang" || event.reason == "network";
}

// What a first part of the run says.
class Learner {
 public:
  Learner(const Recording& run, double samples) : run_(run) {
    for (const auto& line : run.lines) {
      if (cut_ != nullptr && line.samples > samples) break;
      cut_ = &line;
      auto& of = steps_[line.generation];
      of.first += static_cast<double>(line.steps) * line.step_s;
      of.second += line.steps;
    }
    for (const auto& event : run.events) {
      if (event.time > cut_->time && !known_.empty()) break;
      known_.push_back(&event);
    }
    take_measured();
    fit();
    scale();
  }

  double cut_time() const { return cut_->time; }

  ProfileSet profiles() const {
    ProfileSet set{.source = "a recorded run", .model = "recorded"};
    for (const auto& [worker, row_ms] : row_ms_) {
      DeviceProfile device{.fingerprint = worker, .model = set.model, .dtype = "float32"};
      device.computation = {{.local_batch = 1,
                             .concurrent = 1,
                             .data_ms = 0,
                             .forward_ms = row_ms / 3,
                             .backward_ms = 2 * row_ms / 3,
                             .update_ms = fixed_ms_}};
      device.memory = {{.local_batch = 1, .max_concurrent = 1}};
      set.devices.push_back(std::move(device));
    }
    set.bucket_megabytes = {1};
    for (const auto& [ranks, times] : exchange_) {
      set.communication.push_back({.collective = "all_reduce",
                                   .place = "inter",
                                   .ranks = ranks,
                                   .bytes = 1 << 20,
                                   .ms = median_or_zero(times)});
    }
    if (exchange_.empty()) {
      set.communication.push_back({.collective = "all_reduce", .place = "inter", .ranks = 2});
      set.communication.back().bytes = 1 << 20;
    }
    return set;
  }

  // Of steps, in what is no step and no change of members.
  double other_ms() const {
    double steps_s = 0, pauses_s = 0;
    for (const auto& [generation, of] : steps_) steps_s += of.first;
    for (const auto* event : known_) {
      if (event != known_.front()) pauses_s += event->pause_s;
    }
    const double all_s = cut_->time - run_.events.front().time;
    return 1000 * std::max(0.0, all_s - steps_s - pauses_s) /
           static_cast<double>(std::max<int64_t>(1, cut_->step - run_.events.front().step));
  }

  // Of changes of a kind; of the whole run where the first part has none.
  double pause_s(bool failures) const {
    std::vector<double> known, all;
    for (const auto& event : run_.events) {
      if (&event == &run_.events.front() || is_failure(event) != failures) continue;
      all.push_back(event.pause_s);
      if (event.time <= cut_->time) known.push_back(event.pause_s);
    }
    return median_or_zero(known.empty() ? all : known);
  }

 private:
  struct Point {
    double rows = 0, ms = 0;
  };

  void take_measured() {
    for (const auto* event : known_) {
      double exchange = -1;
      for (const auto& time : event->measured) {
        if (time.rows < 1 || !(time.own_ms > 0)) continue;
        points_[time.worker].push_back({static_cast<double>(time.rows), time.own_ms});
        exchange = exchange < 0 ? time.comm_ms : std::min(exchange, time.comm_ms);
      }
      const auto ranks = std::ssize(event->measured);
      if (exchange >= 0 && ranks > 1) exchange_[ranks].push_back(exchange);
    }
    // Of generations that no measurement is of: as long as the step, as far as anybody can tell.
    for (const auto& event : run_.events) {
      const double ms = step_ms(event.generation);
      for (size_t i = 0; i < event.workers.size(); ++i) {
        auto& points = points_[event.workers[i]];
        if (!points.empty() || ms <= 0 || event.rows[i] < 1) continue;
        points.push_back({static_cast<double>(event.rows[i]), ms});
      }
    }
  }

  double step_ms(int64_t generation) const {
    const auto found = steps_.find(generation);
    if (found == steps_.end() || found->second.second < 1) return 0;
    return 1000 * found->second.first / static_cast<double>(found->second.second);
  }

  // ms = fixed + rows x its own: the fixed part from workers that had several shares.
  void fit() {
    std::vector<double> bases;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [worker, points] : points_) {
      std::vector<double> rows, ms;
      for (const auto& point : points) {
        rows.push_back(point.rows);
        ms.push_back(point.ms);
        least = std::min(least, point.ms);
      }
      const auto [low, high] = std::minmax_element(rows.begin(), rows.end());
      if (!rows.empty() && *high > 1.2 * *low) bases.push_back(fit_line(rows, ms).base);
    }
    fixed_ms_ = bases.empty() ? 0 : std::clamp(median_or_zero(bases), 0.0, 0.9 * least);
    double sum = 0;
    for (const auto& [worker, points] : points_) {
      std::vector<double> each;
      for (const auto& point : points) each.push_back((point.ms - fixed_ms_) / point.rows);
      if (each.empty()) continue;
      row_ms_[worker] = median_or_zero(each);
      sum += row_ms_[worker];
    }
    // Who comes later is like those that were there.
    const double mean = sum / static_cast<double>(std::max<size_t>(1, row_ms_.size()));
    for (const auto& event : run_.events) {
      for (const auto& worker : event.workers) row_ms_.try_emplace(worker, mean);
    }
  }

  double exchange_ms(size_t ranks) const {
    if (ranks < 2 || exchange_.empty()) return 0;
    const auto found = exchange_.find(static_cast<int64_t>(ranks));
    return median_or_zero((found == exchange_.end() ? exchange_.rbegin()->second : found->second));
  }

  void scale() {
    double predicted = 0, measured = 0;
    for (const auto* event : known_) {
      const auto found = steps_.find(event->generation);
      if (found == steps_.end()) continue;
      double longest = 0;
      for (size_t i = 0; i < event->workers.size(); ++i) {
        longest = std::max(longest, fixed_ms_ + static_cast<double>(event->rows[i]) *
                                                    row_ms_.at(event->workers[i]));
      }
      const auto steps = static_cast<double>(found->second.second);
      predicted += steps * longest;
      measured += 1000 * found->second.first - steps * exchange_ms(event->workers.size());
    }
    if (!(predicted > 0) || !(measured > 0)) return;
    for (auto& [worker, row_ms] : row_ms_) row_ms *= measured / predicted;
    fixed_ms_ *= measured / predicted;
  }

  const Recording& run_;
  const StepsLine* cut_ = nullptr;  // the last one that counts
  std::vector<const Event*> known_;
  std::map<int64_t, std::pair<double, int64_t>> steps_;  // s and number, by generation
  std::map<std::string, std::vector<Point>> points_;     // own times, by worker
  std::map<int64_t, std::vector<double>> exchange_;      // ms, by the number of ranks
  std::map<std::string, double> row_ms_;
  double fixed_ms_ = 0;
};

// The run's recipe, whose other keys may be of another version.
class ConfigText {
 public:
  explicit ConfigText(const fs::path& path)
      : root_(parse_config_yaml(read_file(path.string(), kMaxConfigBytes), path.string())) {}

  // Empty where it has none.
  std::string value(const std::string& section, const std::string& key) const {
    const auto* const found = root_.find(section);
    const auto* const node = found != nullptr ? found->find(key) : nullptr;
    return node != nullptr ? node->scalar : "";
  }

 private:
  ConfigNode root_;
};

std::vector<TraceEvent> events_of(const Recording& run, const Cluster& cluster) {
  std::map<std::string, size_t> hosts;
  for (size_t i = 0; i < cluster.hosts.size(); ++i) hosts[cluster.hosts[i].name] = i;
  std::vector<TraceEvent> events;
  std::set<std::string> there;
  const double start = run.events.front().time;
  for (const auto& event : run.events) {
    const bool is_first = &event == &run.events.front();
    const double since = event.time - start - (is_first ? 0 : event.pause_s);
    const double hour = std::max(events.empty() ? 0.0 : events.back().hour, since / kSecondsOfHour);
    const std::set<std::string> now(event.workers.begin(), event.workers.end());
    const auto gone = is_failure(event) ? TraceEventKind::kFail : TraceEventKind::kLeave;
    for (const auto& worker : there) {
      if (!now.contains(worker)) events.push_back({hour, gone, hosts.at(worker)});
    }
    for (const auto& worker : now) {
      if (!there.contains(worker)) {
        events.push_back({hour, TraceEventKind::kJoin, hosts.at(worker)});
      }
    }
    there = now;
  }
  return events;
}

}  // namespace

RecordedRun read_recorded_run(const fs::path& run_dir, double first_part) {
  const auto recording = read_recording(run_dir);
  const auto config = ConfigText(run_dir / "config.yaml");
  const auto samples = recording.lines.back().samples;
  const Learner learner(recording, first_part * samples);
  RecordedRun run{.cluster = {}, .profiles = learner.profiles(), .trace = {}};
  for (const auto& device : run.profiles.devices) {
    HostConfig host{.type = device.fingerprint, .number = 1};
    host.intra_network_bandwidth = host.inter_network_bandwidth = 1e9;  // times are known
    host.price_per_hour = 1;
    run.cluster.hosts.push_back({device.fingerprint, host});
  }
  const double start = recording.events.front().time;
  run.hours = (recording.end - start) / kSecondsOfHour;
  run.learned_hours = (learner.cut_time() - start) / kSecondsOfHour;
  auto& head = run.trace.head;
  head.config = "config.json";
  head.global_batch = recording.lines.front().global_batch;
  head.samples = head.epoch_samples = samples;
  head.hours = std::max(1.0, 20 * run.hours);  // the prediction may be longer
  head.change_s = learner.pause_s(false);
  head.detect_s = std::max(0.0, learner.pause_s(true) - head.change_s);
  head.restart_s = 0;  // it begins with its first step
  constexpr int64_t kMostSlots = 1'000'000;
  const auto slots = parse_number<int64_t>(config.value("parallel", "slots")).value_or(0);
  head.slots = std::clamp<int64_t>(slots, 0, kMostSlots);
  head.shares = config.value("elastic", "shares") == "equal" ? "equal" : "speed";
  head.other_ms = learner.other_ms();
  run.trace.events = events_of(recording, run.cluster);
  int64_t batch = head.global_batch;
  for (const auto& line : recording.lines) {
    if (line.global_batch == batch) continue;
    batch = line.global_batch;
    const double at = line.samples - static_cast<double>(line.steps) * static_cast<double>(batch);
    run.trace.batches.push_back({at, batch});
  }
  return run;
}

void write_recorded_run(const RecordedRun& run, const fs::path& folder) {
  fs::create_directories(folder);
  write_profiles(run.profiles, (folder / "profiles").string());
  nlohmann::ordered_json hosts;
  for (const auto& host : run.cluster.hosts) {
    hosts[host.name] = {{"type", host.config.type},
                        {"number", host.config.number},
                        {"intra_network_bandwidth", host.config.intra_network_bandwidth},
                        {"inter_network_bandwidth", host.config.inter_network_bandwidth},
                        {"price_per_hour", host.config.price()}};
  }
  write_file_atomic((folder / "cluster.json").string(), json_text(hosts, 1) + "\n");
  const nlohmann::ordered_json config = {{"profile_dir", "profiles"},
                                         {"gpu_cluster_info", "cluster.json"}};
  write_file_atomic((folder / "config.json").string(), json_text(config, 1) + "\n");
  write_file_atomic((folder / "trace.jsonl").string(), trace_text(run.trace, run.cluster));
}

}  // namespace fovea::elastic
