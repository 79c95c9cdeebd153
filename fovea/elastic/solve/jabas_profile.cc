#include "fovea/elastic/solve/jabas_profile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/printable.h"
#include "fovea/files/files_below.h"

namespace fovea::elastic {
namespace {

constexpr uint64_t kMaxJabasBytes = 16 << 20;

double time_of(const JsonValue& object, std::string_view key) {
  const auto value = object.at(key);
  const double ms = value.number();
  if (!std::isfinite(ms) || ms < 0 || ms > 1e12) value.refuse("milliseconds, 0 or more");
  return ms;
}

int64_t count_of(const JsonValue& object, std::string_view key, int64_t most) {
  const auto value = object.at(key);
  const auto count = value.integer();
  if (count < 1 || count > most) value.refuse(fmt::format("1 to {}", most));
  return count;
}

// LBS/HOST/name: the parts of a path below a folder.
struct PathParts {
  int64_t local_batch = 0;
  std::string host, name;
};

PathParts parts_of(const std::string& root, const std::string& path) {
  const auto first = path.find('/'), second = path.find('/', first + 1);
  const auto batch = parse_number<int64_t>(std::string_view(path).substr(0, first));
  if (first == path.npos || second == path.npos || path.find('/', second + 1) != path.npos ||
      !batch || *batch < 1) {
    fail<DataError>("{}: found {}; expected BATCH/HOST/FILE", root, printable_start(path));
  }
  return {.local_batch = *batch,
          .host = path.substr(first + 1, second - first - 1),
          .name = path.substr(second + 1)};
}

// Calls body(parts, path, text) for every JSON file of one of the hosts.
template <class Body>
void for_each_file(const std::string& root, const std::vector<std::string>& hosts, Body body) {
  UnreadFiles unread;
  const auto is_json = [](const std::string& name) { return name.ends_with(".json"); };
  for (const auto& path : list_files_below(root, is_json, unread)) {
    const auto parts = parts_of(root, path);
    if (std::find(hosts.begin(), hosts.end(), parts.host) == hosts.end()) continue;
    const auto whole = (std::filesystem::path(root) / path).string();
    body(parts, whole, read_file(whole, kMaxJabasBytes));
  }
}

using Devices = std::map<std::string, DeviceProfile>;  // by host

void check_batch(const PathParts& parts, const std::string& path, int64_t found) {
  if (found == parts.local_batch) return;
  fail<DataError>("{}: lbs: found {} in a folder of {}", path, found, parts.local_batch);
}

void check_kind(const DeviceProfile& device, const std::string& path, const std::string& kind) {
  if (device.fingerprint == kind) return;
  fail<DataError>("{}: gpu_type: found '{}'; that of host {} is '{}'", path, printable_start(kind),
                  printable_start(device.host), printable_start(device.fingerprint));
}

void read_computation(const std::string& root, const std::vector<std::string>& hosts,
                      Devices& devices, std::string& model) {
  for_each_file(root, hosts, [&](const auto& parts, const auto& path, const auto& text) {
    auto found = parse_jabas_computation(text, path);
    check_batch(parts, path, found.point.local_batch);
    if (model.empty()) model = found.model;
    if (found.model != model) {
      fail<DataError>("{}: model: found '{}'; that of others is '{}'", path,
                      printable_start(found.model), printable_start(model));
    }
    auto& device = devices[parts.host];
    if (device.host.empty()) {
      device.host = parts.host;
      device.fingerprint = found.gpu_type;
      device.model = found.model;
      device.dtype = "float32";
    }
    check_kind(device, path, found.gpu_type);
    for (const auto& other : device.computation) {
      if (other.local_batch != found.point.local_batch ||
          other.concurrent != found.point.concurrent) {
        continue;
      }
      fail<DataError>("{}: num_models: {} of batch {} stands in two files", path, other.concurrent,
                      other.local_batch);
    }
    device.computation.push_back(found.point);
  });
}

void read_memory(const std::string& root, const std::vector<std::string>& hosts, Devices& devices) {
  for_each_file(root, hosts, [&](const auto& parts, const auto& path, const auto& text) {
    const auto found = parse_jabas_memory(text, path);
    check_batch(parts, path, found.point.local_batch);
    const auto device = devices.find(parts.host);
    if (device == devices.end()) return;
    check_kind(device->second, path, found.gpu_type);
    for (const auto& other : device->second.memory) {
      if (other.local_batch != found.point.local_batch) continue;
      fail<DataError>("{}: lbs: {} stands in two files", path, other.local_batch);
    }
    device->second.memory_bytes = found.total_bytes;
    device->second.memory.push_back(found.point);
  });
}

void read_communication(const std::string& root, ProfileSet& set) {
  UnreadFiles unread;
  bool has_intra = false, has_inter = false;
  const auto is_text = [](const std::string& name) { return name.ends_with(".txt"); };
  for (const auto& name : list_files_below(root, is_text, unread)) {
    const auto path = (std::filesystem::path(root) / name).string();
    const auto line = parse_jabas_communication(read_file(path, kMaxJabasBytes), path);
    if (name.find("intra") != name.npos) {
      set.intra = line, has_intra = true;
    } else if (name.find("inter") != name.npos) {
      set.inter = line, has_inter = true;
    } else {
      fail<DataError>("{}: expected a name with intra or inter in it", path);
    }
  }
  if (!has_intra && !has_inter) {
    fail<DataError>(
        "{}: found no measurements; expected intra_comm_profile_data.txt and "
        "inter_comm_profile_data.txt",
        root);
  }
  // One machine alone has no network to others to measure, and the other way round.
  if (!has_inter) set.inter = set.intra;
  if (!has_intra) set.intra = set.inter;
  set.has_lines = true;
}

void read_buckets(const std::string& root, ProfileSet& set) {
  UnreadFiles unread;
  const auto is_json = [](const std::string& name) { return name.ends_with(".json"); };
  const auto names = list_files_below(root, is_json, unread);
  if (names.size() != 1) {
    fail<DataError>("{}: found {} JSON files; expected one, with the sizes of buckets", root,
                    names.size());
  }
  const auto path = (std::filesystem::path(root) / names[0]).string();
  set.bucket_megabytes = parse_jabas_buckets(read_file(path, kMaxJabasBytes), path);
}

}  // namespace

JabasComputation parse_jabas_computation(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source, 16, RepeatedNames::kRefused);
  const JsonValue value(raw, source);
  JabasComputation found{.model = value.at("model").text(),
                         .gpu_type = value.at("gpu_type").text(),
                         .point = {.local_batch = count_of(value, "lbs", kMaxLocalBatch),
                                   .concurrent = count_of(value, "num_models", kMaxConcurrent),
                                   .data_ms = time_of(value, "data_time"),
                                   .forward_ms = time_of(value, "fwd_time"),
                                   .backward_ms = time_of(value, "bwd_time"),
                                   .update_ms = time_of(value, "update_time"),
                                   .copy_ms = time_of(value, "copy_time")}};
  if (value.find("bn_sync_time")) found.point.sync_ms = time_of(value, "bn_sync_time");
  if (found.point.forward_ms + found.point.backward_ms <= 0) {
    value.at("fwd_time").refuse("a pass that takes time");
  }
  return found;
}

JabasMemory parse_jabas_memory(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source, 16, RepeatedNames::kRefused);
  const JsonValue value(raw, source);
  return {.gpu_type = value.at("gpu_type").text(),
          .total_bytes = static_cast<int64_t>(
              std::min<uint64_t>(value.at("total_memory").count(), int64_t{1} << 60)),
          .point = {.local_batch = count_of(value, "lbs", kMaxLocalBatch),
                    .max_concurrent = count_of(value, "max_num_models", kMaxConcurrent)}};
}

std::vector<double> parse_jabas_buckets(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source, 16, RepeatedNames::kRefused);
  const auto list = JsonValue(raw, source).at("bucket_size_distribution");
  auto sizes = list.numbers();
  for (const double size : sizes) {
    if (!std::isfinite(size) || size <= 0 || size > 1e9) list.refuse("sizes over 0, in MB");
  }
  if (sizes.empty()) list.refuse("at least one size");
  return sizes;
}

Line parse_jabas_communication(std::string_view text, const std::string& source) {
  std::vector<double> ideal, measured;
  int64_t number = 0;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    auto line = text.substr(begin, end - begin);
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto comma = std::min(line.find(','), line.size());
    const auto x = parse_number<double>(line.substr(0, comma));
    const auto y = parse_number<double>(line.substr(std::min(comma + 1, line.size())));
    const bool is_good = x && y && std::isfinite(*x) && std::isfinite(*y) && *x >= 0 && *y >= 0 &&
                         *x < 1e12 && *y < 1e12;
    if (!is_good) {
      fail<DataError>("{}:{}: found '{}'; expected two times in ms, 'ideal,measured'", source,
                      number, printable_start(line));
    }
    ideal.push_back(*x);
    measured.push_back(*y);
  }
  if (ideal.empty()) fail<DataError>("{}: found no line 'ideal,measured'", source);
  return fit_line(ideal, measured);
}

ProfileSet read_jabas_profiles(const JabasFolders& folders, const std::vector<std::string>& hosts) {
  ProfileSet set;
  set.source = folders.computation;
  Devices devices;
  read_computation(folders.computation, hosts, devices, set.model);
  read_memory(folders.memory, hosts, devices);
  for (const auto& host : hosts) {
    const auto device = devices.find(host);
    if (device == devices.end()) continue;  // another host may have a device of its kind
    auto& points = device->second.computation;
    std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
      return std::pair(a.concurrent, a.local_batch) < std::pair(b.concurrent, b.local_batch);
    });
    const bool has_room = std::any_of(points.begin(), points.end(), [&](const auto& point) {
      return device->second.max_concurrent(point.local_batch) > 0;
    });
    if (!has_room) {
      fail<DataError>("{}: no profile of host {}; expected BATCH/{}/max_memory_profile_info.json",
                      folders.memory, printable_start(host), printable_start(host));
    }
    set.devices.push_back(device->second);
  }
  if (set.devices.empty()) {
    fail<DataError>("{}: no profile of the hosts; expected BATCH/HOST/NAME_comp_profile.json",
                    folders.computation);
  }
  read_communication(folders.communication, set);
  read_buckets(folders.buckets, set);
  return set;
}

}  // namespace fovea::elastic
