#include "fovea/train/report/member_changes.h"

#include <nlohmann/json.hpp>

#include "fovea/core/json.h"
#include "fovea/files/lines.h"

namespace fovea::train {
namespace {

constexpr uint64_t kMostBytesOfLine = 1 << 20;
constexpr int kMostDepth = 4;

MemberChange change_from(const JsonValue& value) {
  return {.generation = value.at("generation").integer(),
          .reason = value.at("reason").text(),
          .workers = value.at("workers").texts(),
          .step = value.at("step").integer(),
          .pause_s = value.at("pause_s").number(),
          .steps_lost = value.at("steps_lost").integer()};
}

}  // namespace

std::vector<MemberChange> read_member_changes(const std::filesystem::path& file) {
  std::vector<MemberChange> changes;
  each_whole_line(file.string(), kMostBytesOfLine,
                  [&](const std::string& line, const std::string& source) {
                    const auto object = parse_json(line, source, kMostDepth);
                    changes.push_back(change_from({object, source}));
                  });
  return changes;
}

}  // namespace fovea::train
