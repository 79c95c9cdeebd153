#include "fovea/data/order/batch_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/config/binding.h"
#include "fovea/config/read.h"
#include "fovea/config/yaml_root.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/atomic_file.h"

namespace fovea::data {
namespace {

constexpr const char* kScheduleForm =
    "a list such as [{position: 0, size: 256}, {position: 60000, size: 512}]";

struct ScheduleEntry {
  int64_t position = 0, size = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("position", self.position, "samples before the first batch of this size",
            {.min = 0, .max = 9007199254740992.0, .unit = "samples", .required = true});
    v.field("size", self.size, "samples of a batch from there on",
            {.min = 1, .unit = "samples", .required = true});
  }
};

struct ScheduleEntries {
  std::vector<ScheduleEntry> batch_schedule;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("batch_schedule", self.batch_schedule, "the list");
  }

  void validate(ConfigIssues& issues) const {
    for (size_t i = 1; i < batch_schedule.size(); ++i) {
      const auto before = batch_schedule[i - 1].position, here = batch_schedule[i].position;
      if (here > before) continue;
      const auto key = fmt::format("batch_schedule.{}.position", i);
      const auto key_before = fmt::format("batch_schedule.{}.position", i - 1);
      issues.add(key, {key_before},
                 fmt::format("found {} after {}; expected positions that rise: sort the list, and "
                             "give each position one size",
                             here, before));
    }
  }
};

std::string schedule_file_text(const std::string& path) {
  try {
    return read_file(path, kMaxConfigBytes);
  } catch (const Error& error) {
    fail<ConfigError>("data.batch_schedule: {}", error.what());
  }
}

}  // namespace

BatchSchedule read_batch_schedule(const std::string& path) {
  ConfigNode list = parse_yaml_root(schedule_file_text(path), path);
  if (list.kind != ConfigNode::Kind::kList) {
    fail<ConfigError>("{}: found {}; expected {}", path, describe_node(list), kScheduleForm);
  }
  if (list.children.empty())
    fail<ConfigError>("{}: the list is empty; expected {}", path, kScheduleForm);
  ConfigNode root;
  root.kind = ConfigNode::Kind::kMap;
  root.origin = list.origin;
  root.add("batch_schedule", list);
  ScheduleEntries entries;
  const fovea::detail::BoundSection<ScheduleEntries> binding(entries);
  fovea::detail::ConfigReader reader(path, binding);
  reader.read_root(binding, root);
  reader.throw_faults();
  BatchSchedule schedule;
  for (size_t i = 0; i < entries.batch_schedule.size(); ++i) {
    const auto& [position, size] = entries.batch_schedule[i];
    schedule.push_back({position, size, list.children[i].origin.text()});
  }
  return schedule;
}

std::string batch_schedule_text(const BatchSchedule& schedule) {
  std::string text;
  for (const auto& change : schedule) {
    text += fmt::format("- {{position: {}, size: {}}}\n", change.position, change.size);
  }
  return text;
}

void write_batch_schedule(const std::string& path, const BatchSchedule& schedule) {
  write_file_atomic(path, batch_schedule_text(schedule));
}

BatchSchedule schedule_before(const BatchSchedule& schedule, int64_t position) {
  BatchSchedule before;
  for (const auto& change : schedule) {
    if (change.position >= position && change.position > 0) break;
    if (before.empty() || before.back().size != change.size) before.push_back(change);
  }
  return before;
}

}  // namespace fovea::data
