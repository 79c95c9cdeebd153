#include "fovea/elastic/relay_choice.h"

#include <algorithm>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::elastic {
namespace {

using checkpoint::Manifest;

constexpr int kMaxDepth = 48;

void check_workers(const std::vector<MemberState>& members) {
  std::set<std::string> names;
  for (const auto& member : members) {
    if (!names.insert(member.worker).second) {
      fail<ConfigError>("two members are called '{}'; expected a name for each worker",
                        member.worker);
    }
    if (member.committed_step != members.front().committed_step) {
      fail<CheckpointError>(
          "the last checkpoint is of step {} for worker {}, and of step {} for worker {}; expected "
          "one commit for all",
          members.front().committed_step, members.front().worker, member.committed_step,
          member.worker);
    }
  }
}

RelayChoice choose_of_step(const std::vector<MemberState>& members, int64_t step,
                           uint64_t chunk_bytes) {
  RelayChoice choice{.step = step, .scalars = {}, .plan = {}};
  Manifest held;
  std::vector<WantedState> wanted;
  for (const auto& member : members) {
    wanted.push_back({.worker = member.worker, .manifest = member.wanted});
    if (step < 0 || member.held.step != step) continue;
    checkpoint::join(held, member.held);
    if (choice.scalars.is_null()) choice.scalars = member.held.scalars;
  }
  choice.plan = plan_relay(held, wanted, chunk_bytes);
  return choice;
}

}  // namespace

std::string to_text(const MemberState& member) {
  return json_text(nlohmann::json{{"worker", member.worker},
                                  {"address", member.address},
                                  {"port", member.port},
                                  {"committed_step", member.committed_step},
                                  {"held", member.held.to_text()},
                                  {"wanted", member.wanted.to_text()}});
}

MemberState member_from(const std::string& text, int64_t rank) {
  const auto source = fmt::format("what rank {} holds", rank);
  const auto object = parse_json(text, source, kMaxDepth);
  const JsonValue value(object, source);
  return {.worker = value.at("worker").text(),
          .address = value.at("address").text(),
          .port = value.at("port").integer(),
          .committed_step = value.at("committed_step").integer(),
          .held = checkpoint::manifest_from(value.at("held").text(), source),
          .wanted = checkpoint::manifest_from(value.at("wanted").text(), source)};
}

std::optional<RelayChoice> choose_state(const std::vector<MemberState>& members,
                                        uint64_t chunk_bytes) {
  check_workers(members);
  int64_t newest = -1;
  for (const auto& member : members) newest = std::max(newest, member.held.step);
  const int64_t committed = members.front().committed_step;
  if (newest > committed) {
    auto choice = choose_of_step(members, newest, chunk_bytes);
    if (choice.plan.missing.empty()) return choice;
  }
  if (committed < 0) return {};
  return choose_of_step(members, committed, chunk_bytes);
}

}  // namespace fovea::elastic
