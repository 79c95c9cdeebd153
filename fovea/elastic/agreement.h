// On which step the members of a run go on, where some of them were lost within one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/parallel/world.h"
#include "fovea/train/state/mesh_state.h"
#include "fovea/train/step/step.h"
#include "fovea/train/training_run.h"

namespace fovea::elastic {

// Where a member stands, as the others hear it.
struct StepStand {
  int64_t done = -1;      // steps that its state has whole; -1: it has no state
  bool has_sums = false;  // of step number `done`: all that is missing are its numbers
  // What the update takes besides gradients: of step `done` where it is prepared, else of the last
  // one that was done.
  std::optional<train::PreparedStep> numbers = {};
};

// progress: of the steps on `parts`. state_step: steps done when they began.
StepStand stand_of(const train::StepProgress& progress, const train::StepParts& parts,
                   int64_t state_step);
// Of a run of members, whose generation may have broken off before its first step.
StepStand stand_of(const train::TrainingRun& run);

// Numbers come back in every bit. Throws DataError: it is no stand.
std::string to_text(const StepStand& stand);
StepStand stand_from(const std::string& text);

// Note [Step agreement]
// Whoever has done step k knows that all others had the sums of its gradients (Note [Steps that
// break off]). So there are two cases. Where one member has the numbers of step k, and all that
// have a state have done it or have its sums, those that have not done it take the numbers and do:
// what was computed is not lost, and nobody goes back. Else nobody has done it, and all take it
// anew. A member that has neither done what others have, nor its sums, as it was stopped for long
// or broke off within its update, has no state any more; it gets one from the others.
enum class StepChoice { kKeep, kFinish, kDiscard };

struct StepAgreement {
  int64_t done = -1;  // steps that all who keep their state have done then; -1: nobody has one
  std::vector<StepChoice> choices;                  // by member
  std::optional<train::PreparedStep> numbers = {};  // of the step that is to be finished
};

// The same for the same stands.
StepAgreement agree(const std::vector<StepStand>& stands);
// Collective over the new world of the members. Throws RankError.
StepAgreement agree_on_step(parallel::World& world, const StepStand& own);

// kFinish: finishes the step, of which the ranks of state's mesh are lost, with learning rate `lr`
// -> its outcome. Else there is nothing to do.
std::optional<train::StepOutcome> carry_out(const StepAgreement& agreement, StepChoice own,
                                            train::MeshState& state, double lr);

}  // namespace fovea::elastic
