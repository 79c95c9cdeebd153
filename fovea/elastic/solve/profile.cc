#include "fovea/elastic/solve/profile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json_line.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/files_below.h"
#include "fovea/files/record_json.h"

namespace fovea::elastic {
namespace {

constexpr uint64_t kMaxProfileBytes = 16 << 20;

template <class Record>
Record parsed(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source, 16, RepeatedNames::kRefused);
  const JsonValue value(raw, source);
  const auto version = value.at("version").integer();
  if (version != kProfileVersion) {
    fail<DataError>("{}: version {}; this program reads version {}: profile the device again",
                    source, version, kProfileVersion);
  }
  Record record;
  read_record_json(value, record);
  return record;
}

// Messages of `read` begin with "source: key"; they get the key's line: "source:12: key".
template <class Read>
auto with_lines(std::string_view text, const std::string& source, const Read& read) {
  try {
    return read();
  } catch (const DataError& error) {
    const std::string_view message = error.what();
    const auto prefix = source + ": ";
    if (!message.starts_with(prefix)) throw;
    const auto rest = message.substr(prefix.size());
    const auto line = json_line_of(text, rest.substr(0, rest.find_first_of(": ")));
    if (line == 0) throw;
    throw DataError(fmt::format("{}:{}: {}", source, line, rest));
  }
}

void check_time(const std::string& source, const std::string& key, double ms) {
  if (std::isfinite(ms) && ms >= 0 && ms < 1e12) return;
  fail<DataError>("{}: {}: found {}; expected milliseconds, 0 or more", source, key, ms);
}

void check_count(const std::string& source, const std::string& key, int64_t count, int64_t most) {
  if (count >= 1 && count <= most) return;
  fail<DataError>("{}: {}: found {}; expected 1 to {}", source, key, count, most);
}

void check_text(const std::string& source, const std::string& key, const std::string& text) {
  if (!text.empty() && text.size() <= 200) return;
  fail<DataError>("{}: {}: found {} bytes; expected 1 to 200", source, key, text.size());
}

void check_computation(const std::string& source, const DeviceProfile& device) {
  std::set<std::pair<int64_t, int64_t>> seen;
  for (size_t i = 0; i < device.computation.size(); ++i) {
    const auto& point = device.computation[i];
    const auto key = [&](const char* name) { return fmt::format("computation[{}].{}", i, name); };
    check_count(source, key("local_batch"), point.local_batch, kMaxLocalBatch);
    check_count(source, key("concurrent"), point.concurrent, kMaxConcurrent);
    check_time(source, key("data_ms"), point.data_ms);
    check_time(source, key("forward_ms"), point.forward_ms);
    check_time(source, key("backward_ms"), point.backward_ms);
    check_time(source, key("update_ms"), point.update_ms);
    check_time(source, key("copy_ms"), point.copy_ms);
    check_time(source, key("sync_ms"), point.sync_ms);
    if (point.forward_ms + point.backward_ms > 0) {
      if (seen.emplace(point.concurrent, point.local_batch).second) continue;
      fail<DataError>("{}: {}: batch {} of {} workers stands twice", source, key("local_batch"),
                      point.local_batch, point.concurrent);
    }
    fail<DataError>("{}: {}: a pass of 0 ms", source, key("forward_ms"));
  }
  if (device.computation.empty()) fail<DataError>("{}: computation: no points", source);
}

void check_memory(const std::string& source, const DeviceProfile& device) {
  std::set<int64_t> seen;
  for (size_t i = 0; i < device.memory.size(); ++i) {
    const auto& [batch, concurrent] = device.memory[i];
    const auto key = fmt::format("memory[{}].", i);
    check_count(source, key + "local_batch", batch, kMaxLocalBatch);
    check_count(source, key + "max_concurrent", concurrent, kMaxConcurrent);
    if (!seen.insert(batch).second) {
      fail<DataError>("{}: {}local_batch: {} stands twice", source, key, batch);
    }
  }
  for (const auto& point : device.computation) {
    if (device.max_concurrent(point.local_batch) > 0) return;
  }
  fail<DataError>("{}: memory: holds none of the batches under computation", source);
}

template <class Record>
std::string text_of_record(const Record& record) {
  return json_text(record_json(record), 1) + "\n";
}

std::string text_of(const std::filesystem::path& path) {
  return read_file(path.string(), kMaxProfileBytes);
}

void add_device(ProfileSet& set, std::string& dtype, DeviceProfile device,
                const std::string& path) {
  if (set.devices.empty()) {
    set.model = device.model;
    dtype = device.dtype;
  }
  const auto& first = set.devices.empty() ? path : set.devices.front().fingerprint;
  if (device.model != set.model || device.dtype != dtype) {
    fail<DataError>(
        "{}: model {} in {}; that of {} is {} in {}: profiles of one folder are of one "
        "model and dtype",
        path, printable_start(device.model), printable_start(device.dtype), printable_start(first),
        printable_start(set.model), printable_start(dtype));
  }
  if (set.find("", device.fingerprint) != nullptr) {
    fail<DataError>("{}: fingerprint: '{}' is that of another file", path,
                    printable_start(device.fingerprint));
  }
  set.devices.push_back(std::move(device));
}

}  // namespace

int64_t DeviceProfile::max_concurrent(int64_t local_batch) const {
  int64_t most = 0;
  for (const auto& point : memory) {
    if (point.local_batch == local_batch) return point.max_concurrent;
    // What holds a larger batch holds this one.
    if (point.local_batch > local_batch) most = std::max(most, point.max_concurrent);
  }
  return most;
}

const DeviceProfile* ProfileSet::find(const std::string& host,
                                      const std::string& fingerprint) const {
  const DeviceProfile* of_kind = nullptr;
  for (const auto& device : devices) {
    if (!host.empty() && device.host == host) return &device;
    if (of_kind == nullptr && device.fingerprint == fingerprint) of_kind = &device;
  }
  return of_kind;
}

Line fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  if (x.empty()) return {};
  double mean_x = 0, mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) mean_x += x[i] / n, mean_y += y[i] / n;
  double xx = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (!(xx > 0)) return {.base = 0, .slope = mean_x > 0 ? mean_y / mean_x : 0};
  const double slope = std::max(0.0, xy / xx);
  return {.base = mean_y - slope * mean_x, .slope = slope};
}

namespace {

DeviceProfile checked_device(std::string_view text, const std::string& source) {
  auto device = parsed<DeviceProfile>(text, source);
  check_text(source, "fingerprint", device.fingerprint);
  check_text(source, "model", device.model);
  check_text(source, "dtype", device.dtype);
  if (device.memory_bytes < 0) {
    fail<DataError>("{}: memory_bytes: found {}; expected 0 or more", source, device.memory_bytes);
  }
  check_computation(source, device);
  check_memory(source, device);
  std::sort(device.computation.begin(), device.computation.end(), [](auto& a, auto& b) {
    return std::pair(a.concurrent, a.local_batch) < std::pair(b.concurrent, b.local_batch);
  });
  return device;
}

BucketProfile checked_buckets(std::string_view text, const std::string& source) {
  auto buckets = parsed<BucketProfile>(text, source);
  check_text(source, "model", buckets.model);
  for (size_t i = 0; i < buckets.megabytes.size(); ++i) {
    const double size = buckets.megabytes[i];
    if (std::isfinite(size) && size > 0 && size < 1e9) continue;
    fail<DataError>("{}: megabytes[{}]: found {}; expected a size over 0", source, i, size);
  }
  if (buckets.megabytes.empty()) fail<DataError>("{}: megabytes: no buckets", source);
  return buckets;
}

CommunicationProfile checked_communication(std::string_view text, const std::string& source) {
  auto profile = parsed<CommunicationProfile>(text, source);
  for (size_t i = 0; i < profile.points.size(); ++i) {
    const auto& point = profile.points[i];
    const auto key = fmt::format("points[{}].", i);
    if (point.place != "intra" && point.place != "inter") {
      fail<DataError>("{}: {}place: found '{}'; expected intra or inter", source, key,
                      printable_start(point.place));
    }
    if (point.collective != "all_reduce" && point.collective != "reduce_scatter" &&
        point.collective != "all_gather") {
      fail<DataError>(
          "{}: {}collective: found '{}'; expected all_reduce, reduce_scatter or "
          "all_gather",
          source, key, printable_start(point.collective));
    }
    if (point.ranks < 2 || point.ranks > 1 << 20) {
      fail<DataError>("{}: {}ranks: found {}; expected 2 or more", source, key, point.ranks);
    }
    if (!std::isfinite(point.bytes) || point.bytes <= 0) {
      fail<DataError>("{}: {}bytes: found {}; expected a number over 0", source, key, point.bytes);
    }
    check_time(source, key + "ms", point.ms);
  }
  return profile;
}

}  // namespace

DeviceProfile parse_device_profile(std::string_view text, const std::string& source) {
  return with_lines(text, source, [&] { return checked_device(text, source); });
}

BucketProfile parse_bucket_profile(std::string_view text, const std::string& source) {
  return with_lines(text, source, [&] { return checked_buckets(text, source); });
}

CommunicationProfile parse_communication_profile(std::string_view text, const std::string& source) {
  return with_lines(text, source, [&] { return checked_communication(text, source); });
}

ProfileSet read_profiles(const std::string& dir) {
  const std::filesystem::path root = dir;
  const auto is_profile = [](const std::string& name) { return name.ends_with(".json"); };
  UnreadFiles unread;
  ProfileSet set;
  set.source = dir;
  std::string dtype;
  for (const auto& name : list_files_below((root / "devices").string(), is_profile, unread)) {
    const auto path = (root / "devices" / name).string();
    add_device(set, dtype, parse_device_profile(text_of(path), path), path);
  }
  if (set.devices.empty()) {
    fail<DataError>("{}: no profile of a device; expected files devices/*.json", dir);
  }
  const auto path = (root / "buckets.json").string();
  auto buckets = parse_bucket_profile(text_of(path), path);
  if (buckets.model != set.model) {
    fail<DataError>("{}: model: {}; that of the devices is {}", path,
                    printable_start(buckets.model), printable_start(set.model));
  }
  set.bucket_megabytes = std::move(buckets.megabytes);
  const auto between = (root / "communication.json").string();
  auto communication = parse_communication_profile(text_of(between), between);
  set.communication = std::move(communication.points);
  set.communication_measured = std::move(communication.measured);
  return set;
}

std::string profile_text(const DeviceProfile& device) { return text_of_record(device); }
std::string profile_text(const BucketProfile& buckets) { return text_of_record(buckets); }
std::string profile_text(const CommunicationProfile& communication) {
  return text_of_record(communication);
}

// What is no letter or digit is an underscore.
std::string profile_file_name(const std::string& fingerprint) {
  auto name = fingerprint;
  for (auto& c : name) {
    if (!is_letter_or_digit(c) && c != '-' && c != '.') c = '_';
  }
  return name + ".json";
}

bool has_profiles(const std::string& dir) {
  std::error_code error;
  const std::filesystem::directory_iterator files(std::filesystem::path(dir) / "devices", error);
  return !error && std::any_of(begin(files), end(files),
                               [](const auto& file) { return file.path().extension() == ".json"; });
}

void write_profiles(const ProfileSet& profiles, const std::string& dir) {
  const std::filesystem::path root = dir;
  std::filesystem::create_directories(root / "devices");
  const auto write = [&](const std::filesystem::path& path, const auto& record) {
    write_file_atomic(path.string(), profile_text(record));
  };
  for (const auto& device : profiles.devices) {
    write(root / "devices" / profile_file_name(device.fingerprint), device);
  }
  write(root / "buckets.json",
        BucketProfile{.model = profiles.model, .megabytes = profiles.bucket_megabytes});
  write(root / "communication.json",
        CommunicationProfile{.points = profiles.communication,
                             .measured = profiles.communication_measured});
}

}  // namespace fovea::elastic
