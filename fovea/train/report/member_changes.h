// events.jsonl of an elastic run, as a report reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea::train {

// From a step on other workers compute.
struct MemberChange {
  int64_t generation = 0;
  std::string reason;  // "start", "join", "leave", "death" ...
  std::vector<std::string> workers;
  int64_t step = 0;
  double pause_s = 0;
  int64_t steps_lost = 0;
};

// In the order in which they came; a last line that was cut short is left out. Throws DataError: a
// line that is no event.
std::vector<MemberChange> read_member_changes(const std::filesystem::path& file);

}  // namespace fovea::train
