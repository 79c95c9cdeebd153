// Who gives which parts of a run's state to whom, where the mesh of its members changes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/slices.h"
#include "fovea/checkpoint/state.h"

namespace fovea::elastic {

// Note [Re-laying]
// Each member tells what it holds as the manifest of a checkpoint whose files are workers, and what
// it is to hold on the new mesh as another one. From all of them each works out one plan, by itself
// and alike: which box of which tensor comes from whom. Then members ask each other for what is
// theirs, point to point. What nobody holds is in the last checkpoint alone; where that is of an
// earlier step than what members hold, all of the state comes from there, for a state is of one
// step.

// A box of a tensor that one member gives to another, or has itself.
struct Transfer {
  std::string from, to;    // workers
  std::string part, name;  // of the tensor: "model", "blocks.0.norm1.weight"
  checkpoint::Box box;
  bool operator==(const Transfer&) const = default;
};

// What a member is to hold, and which it is.
struct WantedState {
  std::string worker;
  checkpoint::Manifest manifest;
};

struct RelayPlan {
  std::vector<Transfer> transfers;
  std::vector<Transfer> missing;  // that no member holds; `from` is empty

  // Of what travels between members.
  uint64_t bytes = 0;
};

inline constexpr uint64_t kRelayChunk = uint64_t{64} << 20;  // bytes

// Of one of kParts: the tensors, and the boxes of whole ones that they are.
const checkpoint::TensorMap& tensors_of(const checkpoint::State& state, std::string_view part);
std::vector<checkpoint::HeldSlice> slices_of(const checkpoint::State& state, std::string_view part);

// What a process with this state in its memory holds, as the file `worker`; all of it of `step`.
checkpoint::Manifest describe(const checkpoint::State& state, const std::string& worker,
                              int64_t step);

// held: of all members, joined. A member keeps what it has; of several that hold something the one
// gives it that has the least to give so far, in pieces of chunk_bytes at most. The same for the
// same arguments. Throws CheckpointError where a tensor is held with another shape than is wanted.
RelayPlan plan_relay(const checkpoint::Manifest& held, const std::vector<WantedState>& wanted,
                     uint64_t chunk_bytes = kRelayChunk);

}  // namespace fovea::elastic
