#include "fovea/train/step/step_graph.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/trace.h"
#include "fovea/train/step/pass_plan.h"
#include "fovea/train/step/passes.h"

namespace fovea::train {
namespace {

// Images and masks stayed with the loader (PatchedImages).
bool has_patches_alone(const TensorBatch& batch) {
  return batch.patches.tokens.defined() && !batch.patches.images.defined();
}

// Those that a recorded step may read, in one order. Boxes are the loader's, and a task that looks
// at them is not recorded; the images of patches are the batch's.
std::vector<std::pair<const char*, at::Tensor*>> tensors_of(TensorBatch& batch) {
  const bool are_left = has_patches_alone(batch);
  std::vector<std::pair<const char*, at::Tensor*>> tensors;
  for_each_tensor(batch, [&](const char* name, at::Tensor& x) {
    const bool is_left =
        are_left && (&x == &batch.images || &x == &batch.masks || &x == &batch.host_masks);
    if (x.defined() && !is_left && &x != &batch.patches.boxes && &x != &batch.patches.images) {
      tensors.emplace_back(name, &x);
    }
  });
  return tensors;
}

// A batch of which nothing lies in another one's memory.
TensorBatch own_copy(TensorBatch batch) {
  for (const auto& [name, x] : tensors_of(batch)) *x = x->clone();
  if (has_patches_alone(batch)) {
    batch.images = batch.masks = batch.host_masks = at::Tensor();
  } else if (batch.patches.images.defined()) {
    batch.patches.images = batch.images;
  }
  batch.patches.boxes = at::Tensor();
  batch.trees = {};
  batch.patching = nullptr;
  return batch;
}

bool has_weights(const std::vector<TensorBatch>& passes) {
  return std::any_of(passes.begin(), passes.end(),
                     [](const TensorBatch& pass) { return pass.weights.defined(); });
}

}  // namespace

std::string why_not_recorded(const StepParts& parts) {
  const auto& options = parts.options;
  if ((options.ranks && options.ranks->size() > 1) || meets_in_passes(options)) {
    return "several processes train together";
  }
  if (options.sync && options.sync->measures_halves()) return "the batch follows the gradients";
  if (options.scaler) return "the scale of the loss follows from numbers of the step before";
  if (options.concurrent) return "several passes are computed at once, each in a stream of its own";
  if (options.fp8) return "the host works out the scales of FP8";
  if (options.features) return "the features of a frozen backbone come from the host";
  for (const auto& each : {parts.model.can_be_recorded(), parts.task.can_be_recorded(),
                           parts.optimizer.can_be_recorded()}) {
    if (!each) return each.why_not;
  }
  return {};
}

void say_not_recorded(const std::string& reason, bool is_asked_for) {
  const auto text =
      fmt::format("device.cuda_graph: steps are not recorded, as {}; results are the same", reason);
  is_asked_for ? log_warning(text) : log_info(text);
}

StepGraph::StepGraph(const StepParts& parts, TakeStep take, bool is_asked_for,
                     kernels::MakeDeviceGraph make)
    : parts_(parts), take_(std::move(take)), is_asked_for_(is_asked_for), make_(std::move(make)) {}

// Equal for batches of which one step can be a replay of the other's.
std::string StepGraph::layout_of(const std::vector<TensorBatch>& passes) const {
  std::string text;
  for (auto pass : passes) {
    if (!text.empty()) text += "; ";
    for (const auto& [name, x] : tensors_of(pass)) {
      text += fmt::format("{} {} [{}], ", name, c10::toString(x->scalar_type()),
                          fmt::join(x->sizes(), ", "));
    }
    text += fmt::format("channels [{}]", fmt::join(pass.variables, ", "));
    if (pass.patches.has_padding) text += *pass.patches.has_padding ? ", padding" : ", no padding";
    const auto further = parts_.task.recorded_for(pass);
    if (!further.empty()) text += ", " + further;
  }
  return text;
}

PreparedStep StepGraph::take(const StepInput& batch, const RecordedStepOptions& how) {
  if (is_off_) return take_(batch, how);
  const auto passes = passes_of(batch, how.step);
  const auto input = input_of_passes(batch, passes);
  // The host adds weights of samples up; they are those of samples that could not be read.
  if (has_weights(passes)) return take_(input, how);
  auto layout = layout_of(passes);
  if (layout != layout_) {
    if (is_recorded_) {
      say_other_layout(layout, how.step);
    } else {
      layout_ = std::move(layout);
      num_warm_ups_ = 0;
    }
  } else if (is_recorded_ || (num_warm_ups_ == kWarmUps && record(input, passes, how))) {
    return replay(passes, how, batch.position);
  }
  return is_recorded_ || is_off_ ? take_(input, how) : warm_up(input, how);
}

// The last one where the recorded one will be.
PreparedStep StepGraph::warm_up(const StepInput& batch, const RecordedStepOptions& how) {
  if (++num_warm_ups_ < kWarmUps) return take_(batch, how);
  if (!graph_) graph_ = make_(parts_.options.compute.device);
  if (!graph_) {
    give_up("the device has no graphs");
    return take_(batch, how);
  }
  PreparedStep result;
  graph_->rehearse([&] { result = take_(batch, how); });
  return result;
}

void StepGraph::say_other_layout(const std::string& layout, int64_t step) {
  if (has_said_layout_) return;
  has_said_layout_ = true;
  log_info(
      fmt::format("device.cuda_graph: step {} is not a replay, as its batch has {}, and that "
                  "of the recorded one {}; nor are others like it",
                  step, layout, layout_));
}

// With stamps, which the step's masks are drawn by.
std::vector<TensorBatch> StepGraph::passes_of(const StepInput& batch, int64_t step) const {
  std::vector<TensorBatch> passes;
  for (const auto& [begin, end, slot] : plan_passes(batch, parts_.options).own) {
    passes.push_back(batch.tensors(begin, end));
    auto& pass = passes.back();
    const auto counter = static_cast<uint32_t>(step);
    pass.host_stamp = kernels::drop_stamp(counter, pass.rows, at::kCPU);
    pass.stamp = kernels::drop_stamp(counter, pass.rows, parts_.options.compute.device);
  }
  return passes;
}

StepInput StepGraph::input_of_passes(const StepInput& batch,
                                     const std::vector<TensorBatch>& passes) const {
  std::map<int64_t, size_t> number_of;  // of the pass that begins there
  for (const auto& pass : plan_passes(batch, parts_.options).own) {
    number_of.emplace(pass.begin, number_of.size());
  }
  return {.size = batch.size,
          .position = batch.position,
          .share = batch.share,
          .global_size = batch.global_size,
          .tensors = [&passes, number_of = std::move(number_of)](
                         int64_t begin, int64_t /*end*/) { return passes.at(number_of.at(begin)); },
          .has_passes = true};
}

// False: it failed, and the step has not been taken.
bool StepGraph::record(const StepInput& batch, const std::vector<TensorBatch>& passes,
                       const RecordedStepOptions& how) {
  passes_.clear();
  for (const auto& pass : passes) passes_.push_back(own_copy(pass));
  FOVEA_CHECK(how.clip_before.defined(), "step {}: no step before the one to record", how.step);
  clip_before_ = how.clip_before.clone();
  const RecordedStepOptions recorded{.step = how.step, .lr = how.lr, .clip_before = clip_before_};
  const auto input = input_of_passes(batch, passes_);
  try {
    graph_->record([&] {
      const kernels::RecordingScope scope(host_, *graph_);
      result_ = take_(input, recorded);
    });
  } catch (const std::exception& error) {
    // An error of the batch itself comes again in the eager step.
    const std::string what = error.what();
    give_up(fmt::format("recording step {} failed: {}", how.step, what.substr(0, what.find('\n'))));
    return false;
  }
  is_recorded_ = true;
  log_info(fmt::format(
      "device.cuda_graph: step {} and those after it are replays of one recorded step", how.step));
  return true;
}

PreparedStep StepGraph::replay(const std::vector<TensorBatch>& passes,
                               const RecordedStepOptions& how, int64_t position) {
  const trace::Scope replays("replay");
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < passes.size(); ++i) {
    auto from = passes[i];
    const auto sources = tensors_of(from), targets = tensors_of(passes_[i]);
    for (size_t k = 0; k < sources.size(); ++k) {
      targets.at(k).second->copy_(*sources[k].second, /*non_blocking=*/true);
    }
  }
  clip_before_.copy_(how.clip_before);
  host_.check();
  optim::StepExtras extras;
  if (parts_.ema) parts_.ema->join(how.step, extras);
  parts_.optimizer.step_by_replay(how.lr, extras, [&] {
    host_.fill();
    graph_->replay();
  });
  ++num_replays_;
  // The next replay writes where this one did.
  auto result = result_;
  result.step = how.step;
  result.position = position;
  result.clip = result_.clip.clone();
  result.sums.numbers = result_.sums.numbers.clone();
  if (parts_.options.notes) result.notes = parts_.options.notes();
  return result;
}

void StepGraph::give_up(const std::string& reason) {
  say_not_recorded(reason, is_asked_for_);
  is_off_ = true;
  result_ = {};
  graph_.reset();
  host_ = {};
  passes_.clear();
  clip_before_ = at::Tensor();
  parts_.optimizer.mark_changed();  // of copies of weights some may be noted only
}

}  // namespace fovea::train
