#include "fovea/nn/forward_context.h"

#include <algorithm>

namespace fovea::nn {
namespace {

ForwardContext with_step(StepState step) {
  auto context = forward_context();
  context.step = std::move(step);
  return context;
}

ForwardContext with_recorder(Recorder& recorder) {
  auto context = forward_context();
  context.recorder = &recorder;
  return context;
}

}  // namespace

bool Recorder::wants_by_name(const std::string& name) const {
  return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

ForwardContext ForwardContext::of_second_run() const {
  auto context = *this;
  context.recorder = nullptr;
  context.runs_again = true;
  return context;
}

ForwardContext& forward_context() {
  thread_local ForwardContext context;
  return context;
}

ContextScope::ContextScope(ForwardContext context)
    : before_(std::exchange(forward_context(), std::move(context))) {}

ContextScope::~ContextScope() { forward_context() = std::move(before_); }

StepScope::StepScope(uint64_t seed, int64_t step, at::Tensor rows)
    : StepScope(StepState{.seed = seed,
                          .step = static_cast<uint32_t>(step),
                          .rows = std::move(rows),
                          .offsets = {},
                          .stamp = {},
                          .host_stamp = {}}) {}

StepScope::StepScope(StepState state) : scope_(with_step(std::move(state))) {}

RecordScope::RecordScope(std::vector<std::string> wanted, RecordedTokens tokens)
    : recorder_{std::move(wanted), tokens, {}}, scope_(with_recorder(recorder_)) {}

bool is_recording(const std::string& name) {
  const auto* recorder = forward_context().recorder;
  return recorder && recorder->wants_by_name(name);
}

}  // namespace fovea::nn
