#include "fovea/optim/flat_optimizer.h"

#include <ATen/core/grad_mode.h>

#include "fovea/core/error.h"
#include "fovea/kernels/host_part.h"
#include "fovea/kernels/work_scope.h"
#include "fovea/optim/clip.h"
#include "fovea/optim/ema.h"

namespace fovea::optim {
namespace {

// Parts are no model's weights: those are gathered. Nor is float64 trained in bfloat16.
std::vector<kernels::WeightCopies::Place> copied_weights(const FlatParams& flat) {
  std::vector<kernels::WeightCopies::Place> places;
  if (flat.param().scalar_type() != at::kFloat) return places;
  for (size_t i = 0; i < flat.params().size(); ++i) {
    const auto& spec = flat.params()[i];
    if (!spec.part) places.push_back({spec.param, flat.segments()[i].begin});
  }
  return places;
}

// Whether the pass that updates `param` can write `copy` as well.
bool is_bfloat16_of_float(const at::Tensor& copy, const at::Tensor& param) {
  return copy.defined() && copy.scalar_type() == at::kBFloat16 && param.scalar_type() == at::kFloat;
}

}  // namespace

FlatOptimizer::FlatOptimizer(std::string name, std::vector<ParamSpec> params)
    : name_(std::move(name)),
      flat_(std::move(params)),
      copies_(copied_weights(flat_), flat_.param().numel()) {}

void FlatOptimizer::step(double lr, const StepExtras& extras) {
  const at::NoGradGuard no_grad;
  flat_.grad();  // takes in what stands beside the buffer
  if (!kernels::is_step_recorded()) ++steps_taken_;
  prepare(lr, extras);
  const bool is_copied_for_others = is_bfloat16_of_float(flat_.copy(), flat_.param());
  const auto copies = is_copied_for_others ? flat_.copy() : copies_.flat();
  const auto were_current = copies_.are_current();
  const bool is_one_pass = [&] {
    // Gradients are read, parameters, moments and the average read and written, copies written.
    int64_t bytes = 3 * static_cast<int64_t>(flat_.param().nbytes()) +
                    2 * kernels::bytes_of({extras.average}) + kernels::bytes_of({copies});
    for (const auto& [name, moment] : state_) bytes += 2 * static_cast<int64_t>(moment.nbytes());
    const kernels::WorkScope work(kUpdateWork, 0, bytes);
    if (update_in_one_pass(lr, extras, copies)) return true;
    update_around(lr, extras);
    return false;
  }();
  mark_changed(is_one_pass && is_copied_for_others);
  if (is_one_pass && copies.defined()) copies_.stay_current(were_current);
}

void FlatOptimizer::step_by_replay(double lr, const StepExtras& extras,
                                   const std::function<void()>& replay) {
  FOVEA_CHECK(can_be_recorded(), "optimizer {}: a replay of a step that cannot be recorded", name_);
  ++steps_taken_;
  prepare(lr, extras);
  copies_.make_current();  // those of before an evaluation with the average, say
  const auto were_current = copies_.are_current();
  replay();
  mark_changed();
  copies_.stay_current(were_current);
}

// With what `extras` has in passes of its own.
void FlatOptimizer::update_around(double lr, const StepExtras& extras) {
  if (extras.clip.defined() && !scale_gradients(flat_.grad(), extras.clip)) return;
  update(lr);
  if (extras.average.defined()) {
    move_average(extras.average, flat_.param(), extras.average_weight);
  }
}

void FlatOptimizer::mark_changed(bool has_copy) {
  flat_.mark_changed();
  tell_changed(has_copy);
}

void FlatOptimizer::add_state(const std::string& moment, size_t i, const at::Tensor& tensor) {
  state_[moment + "/" + params().at(i).name] = tensor;
}

void FlatOptimizer::load_state(const std::map<std::string, at::Tensor>& state,
                               int64_t steps_taken) {
  if (steps_taken < 0) {
    fail<CheckpointError>("state of optimizer {}: found {} steps taken, expected 0 or more", name_,
                          steps_taken);
  }
  copy_by_name(state, state_, "state of optimizer " + name_);
  steps_taken_ = steps_taken;
}

}  // namespace fovea::optim
