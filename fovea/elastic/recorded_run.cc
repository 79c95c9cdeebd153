#include "fovea/elastic/recorded_run.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/parse_number.h"
#include "fovea/elastic/learned_rates.h"
#include "fovea/elastic/recording.h"
#include "fovea/files/atomic_file.h"

namespace fovea::elastic {
namespace {

namespace fs = std::filesystem;

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
  template <class Number>
  Number number(const std::string& section, const std::string& key, Number otherwise, Number low,
                Number high) const {
    return std::clamp(parse_number<Number>(value(section, key)).value_or(otherwise), low, high);
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

TraceHead head_of(const Recording& recording, const LearnedRates& rates, const ConfigText& config) {
  constexpr int64_t kMany = 1'000'000;
  const double run_hours = (recording.end - recording.events.front().time) / kSecondsOfHour;
  TraceHead head{.config = "config.json", .global_batch = recording.lines.front().global_batch};
  head.samples = head.epoch_samples = recording.lines.back().samples;
  head.hours = std::max(1.0, 20 * run_hours);  // the prediction may be longer
  head.change_s = rates.pause_s(false);
  head.detect_s = std::max(0.0, rates.pause_s(true) - head.change_s);
  head.restart_s = 0;  // it begins with its first step
  head.slots = config.number<int64_t>("parallel", "slots", 0, 0, kMany);
  head.shares = config.value("elastic", "shares") == "equal" ? "equal" : "speed";
  head.shares_gain = config.number("elastic", "shares_gain", head.shares_gain, 0.01, 0.9);
  head.shares_after =
      config.number<int64_t>("elastic", "shares_after", head.shares_after, 8, kMany);
  head.other_ms = rates.other_ms();
  return head;
}

}  // namespace

RecordedRun read_recorded_run(const fs::path& run_dir, double first_part) {
  const auto recording = read_recording(run_dir);
  const auto config = ConfigText(run_dir / "config.yaml");
  const LearnedRates rates(recording, first_part * recording.lines.back().samples);
  RecordedRun run{.cluster = {},
                  .profiles = rates.profiles(),
                  .trace = {.head = head_of(recording, rates, config), .events = {}}};
  for (const auto& device : run.profiles.devices) {
    HostConfig host{.type = device.fingerprint, .number = 1};
    host.intra_network_bandwidth = host.inter_network_bandwidth = 1e9;  // times are known
    host.price_per_hour = 1;
    run.cluster.hosts.push_back({device.fingerprint, host});
  }
  const double start = recording.events.front().time;
  run.hours = (recording.end - start) / kSecondsOfHour;
  run.learned_hours = (rates.cut_time() - start) / kSecondsOfHour;
  run.trace.events = events_of(recording, run.cluster);
  int64_t batch = run.trace.head.global_batch;
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
