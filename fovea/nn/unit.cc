#include "fovea/nn/unit.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/nn/replay_scope.h"

namespace fovea::nn {
namespace {

struct Recorder {
  std::vector<std::string> wanted;
  std::vector<std::pair<std::string, at::Tensor>> kept;

  bool wants_by_name(const std::string& name) const {
    return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  }
};

// Scopes nest: the innermost is in force.
thread_local std::vector<StepState> step_stack;
thread_local std::vector<Recorder> recorder_stack;

std::string join(const std::string& path, const std::string& name) {
  if (path.empty()) return name;
  return name.empty() ? path : path + "." + name;
}

}  // namespace

void UnitImpl::record(const std::string& name, const at::Tensor& x) const {
  if (is_recorded(name)) recorder_stack.back().kept.emplace_back(join(path_, name), x);
}

bool UnitImpl::is_recorded(const std::string& name) const {
  if (recorder_stack.empty()) return false;
  const auto& recorder = recorder_stack.back();
  const auto full_name = join(path_, name);
  if (full_name.empty()) return false;  // the model's own output
  return recorder.wanted.empty() || recorder.wants_by_name(full_name);
}

kernels::DropKey UnitImpl::drop_key(const std::string& name) const {
  const auto full_name = join(path_, name);
  FOVEA_CHECK(!step_stack.empty(),
              "drop layer {} runs in training outside a training step; expected a StepScope with "
              "the seed, the step and the rows of the batch, or eval()",
              full_name);
  const auto& step = step_stack.back();
  const auto parts = drop_parts.find(name);
  return {philox_key(step.seed, full_name),
          step.step,
          step.rows,
          parts == drop_parts.end() ? std::vector<kernels::DropPart>() : parts->second,
          step.offsets,
          step.stamp,
          step.host_stamp};
}

at::Tensor UnitImpl::dropout(const at::Tensor& x, double rate, const char* name) const {
  return is_training() && rate > 0 ? kernels::dropout(x, rate, drop_key(name)) : x;
}

at::Tensor UnitImpl::drop_path_mask(const at::Tensor& x, double rate, const char* name) const {
  if (!is_training() || rate == 0) return {};
  return kernels::drop_path_mask(x, rate, drop_key(name));
}

bool UnitImpl::is_watched() const {
  return !before_forward.empty() || !after_forward.empty() || !on_output.empty() ||
         !around_forward.empty() || is_recorded("");
}

at::Tensor UnitImpl::run_around(UnitForward forward, const std::vector<at::Tensor>& inputs) const {
  for (const auto& around : around_forward) {
    forward = [&around, inner = std::move(forward)](const std::vector<at::Tensor>& given) {
      return around(inner, given);
    };
  }
  return forward(inputs);
}

void assign_names(torch::nn::Module& root) {
  if (auto* unit = dynamic_cast<UnitImpl*>(&root)) unit->set_path("");
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    if (auto* unit = dynamic_cast<UnitImpl*>(item.value().get())) unit->set_path(item.key());
  }
}

StepScope::StepScope(uint64_t seed, int64_t step, at::Tensor rows)
    : StepScope(StepState{.seed = seed,
                          .step = static_cast<uint32_t>(step),
                          .rows = std::move(rows),
                          .offsets = {},
                          .stamp = {},
                          .host_stamp = {}}) {}

StepScope::StepScope(StepState state) { step_stack.push_back(std::move(state)); }

StepScope::~StepScope() { step_stack.pop_back(); }

std::optional<StepState> current_step() {
  return step_stack.empty() ? std::nullopt : std::optional(step_stack.back());
}

ReplayScope::ReplayScope(const std::optional<StepState>& step) : has_step_(step.has_value()) {
  if (has_step_) step_stack.push_back(*step);
  recorder_stack.push_back({{""}, {}});  // no intermediate has this name
}

ReplayScope::~ReplayScope() {
  recorder_stack.pop_back();
  if (has_step_) step_stack.pop_back();
}

RecordScope::RecordScope(std::vector<std::string> wanted) {
  recorder_stack.push_back({std::move(wanted), {}});
}

RecordScope::~RecordScope() { recorder_stack.pop_back(); }

const std::vector<std::pair<std::string, at::Tensor>>& RecordScope::intermediates() const {
  return recorder_stack.back().kept;
}

bool is_recording(const std::string& name) {
  return !recorder_stack.empty() && recorder_stack.back().wants_by_name(name);
}

}  // namespace fovea::nn
