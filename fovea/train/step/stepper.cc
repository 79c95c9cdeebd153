#include "fovea/train/step/stepper.h"

#include <utility>

#include "fovea/kernels/out_of_memory.h"

namespace fovea::train {

Stepper::Stepper(const StepParts& parts, Numbers numbers)
    : parts_(parts), numbers_(can_be_late(parts) ? numbers : Numbers::kAtOnce) {}

StepNotes Stepper::take(data::Batch& batch, int64_t step, double lr) {
  return take(input_of(batch, parts_), step, lr);
}

StepNotes Stepper::take(const StepInput& batch, int64_t step, double lr) {
  if (is_late()) {
    late_.push_back(graph_ ? take_by_graph(batch, step, lr)
                           : take_late(batch, step, lr, last_clip_));
    last_clip_ = late_.back().clip;
    return late_.back().notes;
  }
  const auto prepared = prepare_step(parts_, batch, step);
  outcomes_.push_back(outcome_of(prepared, parts_.options));
  outcomes_.back().is_skipped ? leave_out_step(parts_) : apply_step(parts_, prepared, lr);
  return prepared.notes;
}

PreparedStep Stepper::take_late(const StepInput& batch, int64_t step, double lr,
                                const at::Tensor& clip_before) {
  auto prepared = prepare_step(parts_, batch, step, Numbers::kLate, clip_before);
  apply_step(parts_, prepared, lr);
  return prepared;
}

// What a graph holds has the size of its passes: where memory runs out it makes room.
PreparedStep Stepper::take_by_graph(const StepInput& batch, int64_t step, double lr) {
  try {
    return graph_->take(batch, {.step = step, .lr = lr, .clip_before = last_clip_});
  } catch (const std::exception& error) {
    if (parts_.options.passes == nullptr || !kernels::is_out_of_memory(error)) throw;
  }
  graph_->give_up("memory ran out");
  return take_late(batch, step, lr, last_clip_);
}

void Stepper::use_graphs(kernels::MakeDeviceGraph make, bool is_asked_for) {
  const auto reason =
      is_late() ? why_not_recorded(parts_) : "the host has each step's numbers at once";
  if (!reason.empty()) return say_not_recorded(reason, is_asked_for);
  const auto take = [this](const StepInput& batch, const RecordedStepOptions& how) {
    return take_late(batch, how.step, how.lr, how.clip_before);
  };
  graph_.emplace(parts_, take, is_asked_for, std::move(make));
}

std::vector<StepOutcome> Stepper::outcomes() {
  auto result = std::exchange(outcomes_, {});
  for (const auto& prepared : std::exchange(late_, {})) {
    result.push_back(outcome_of(prepared, parts_.options));
  }
  return result;
}

}  // namespace fovea::train
