// What the members of a mesh tell each other of a run's state, and what follows from it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fovea/checkpoint/manifest.h"
#include "fovea/elastic/relay_plan.h"

namespace fovea::elastic {

struct MemberState {
  std::string worker;
  std::string address;  // of its SliceServer
  int64_t port = 0;
  int64_t committed_step = -1;  // of the last checkpoint; -1: there is none
  checkpoint::Manifest held;    // of step -1: nothing
  checkpoint::Manifest wanted;
};

std::string to_text(const MemberState& member);
// rank: for messages. Throws DataError, CheckpointError: it is none.
MemberState member_from(const std::string& text, int64_t rank);

// Of which step the state is to be, who gives what of it, and the scalars that go with it.
struct RelayChoice {
  int64_t step = -1;
  nlohmann::json scalars;  // null: those of the checkpoint
  RelayPlan plan;
};

// The newest step of which members, or members and the checkpoint, have all. Nothing where there is
// none. The same for the same members. Throws ConfigError where two have one name, CheckpointError
// where they do not fit together.
std::optional<RelayChoice> choose_state(const std::vector<MemberState>& members,
                                        uint64_t chunk_bytes);

}  // namespace fovea::elastic
