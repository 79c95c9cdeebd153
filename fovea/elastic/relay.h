// A run's state on a new mesh of members, out of what they hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "fovea/checkpoint/state.h"
#include "fovea/elastic/relay_plan.h"
#include "fovea/parallel/world.h"

namespace fovea::elastic {

// What a member brings along from the mesh before.
struct Holding {
  std::string worker;
  int64_t step = -1;  // optimizer steps done; -1: it has no state, for it has just come, or lost it
  // Of MeshState::save(HaveAlike::kEach), on the CPU, with the run's own scalars. It may be of a
  // mesh whose ranks are lost.
  checkpoint::State state;
};

// All of its tensors on the CPU: those of a device are copied, so that the model they are of may go
// before the next one comes.
Holding make_holding(const std::string& worker, int64_t step, checkpoint::State state);

// The last checkpoint that is whole, as the run's commit names it; the same for all members.
struct CommittedState {
  std::filesystem::path folder;  // of the checkpoint itself, which all members see
  int64_t step = -1;             // -1: there is none
};

struct Relaid {
  checkpoint::State state;  // as a checkpoint's, loaded with `wanted`: for MeshState::load
  int64_t step = 0;         // that it is of
  // What came to all members together.
  uint64_t bytes_from_peers = 0, bytes_from_checkpoint = 0;
};

// wanted: MeshState::save(kEach) of this member's part on the new mesh, as yet with any values.
// Nothing where neither members nor a checkpoint have the state: the run starts anew. Collective
// over the world. Throws RankError where a member is lost meanwhile: then nothing has changed, and
// `held` may be brought to the next mesh. Throws CheckpointError.
std::optional<Relaid> relay(parallel::World& world, const Holding& held,
                            const checkpoint::State& wanted, const CommittedState& committed,
                            uint64_t chunk_bytes = kRelayChunk);

}  // namespace fovea::elastic
