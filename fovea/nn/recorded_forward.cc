#include "fovea/nn/recorded_forward.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/nn/forward_context.h"

namespace fovea::nn {
namespace {

// Of a model whose inputs differ, most shapes come too seldom for what a recording costs.
constexpr size_t kMostShapes = 16;
// What is made on first use, such as packed weights, is there by then.
constexpr int64_t kLeastPassesBefore = 2;
// Of all recorded passes. Beside the products of a larger one libtorch takes no time to speak of.
constexpr int64_t kMostBytes = int64_t{64} << 20;

}  // namespace

RecordedForward::RecordedForward(UnitImpl& model) {
  for (const auto& unit : units_of(model)) units_.push_back(unit.value());
}

bool RecordedForward::is_watched() const {
  const auto& context = forward_context();
  return context.recorder != nullptr || context.step || context.sequence_length != 0 ||
         at::hasCallbacks() || kernels::are_weights_watched() ||
         std::any_of(units_.begin(), units_.end(),
                     [](const auto* unit) { return unit->is_watched(); });
}

RecordedForward::Taken RecordedForward::take(const Key& key) {
  const std::lock_guard lock(mutex_);
  auto found = shapes_.find(key);
  if (found == shapes_.end()) {
    if (shapes_.size() == kMostShapes) return {};
    found = shapes_.try_emplace(key).first;
  }
  auto& shape = found->second;
  while (!shape.idle.empty()) {
    auto pass = std::move(shape.idle.back());
    shape.idle.pop_back();
    if (pass->is_current()) return {std::move(pass)};
    bytes_ -= pass->bytes();
  }
  return {{}, shape.can_be_recorded && ++shape.num_ordinary > kLeastPassesBefore};
}

void RecordedForward::keep_new(const Key& key, Pass pass) {
  const std::lock_guard lock(mutex_);
  auto& shape = shapes_.at(key);
  shape.can_be_recorded = pass && bytes_ + pass->bytes() <= kMostBytes;
  if (!shape.can_be_recorded) return;
  bytes_ += pass->bytes();
  shape.idle.push_back(std::move(pass));
}

void RecordedForward::give_back(const Key& key, Pass pass) {
  const std::lock_guard lock(mutex_);
  auto& shape = shapes_.at(key);
  if (pass->is_confirmed()) return shape.idle.push_back(std::move(pass));
  bytes_ -= pass->bytes();
  shape.can_be_recorded = false;
}

// Of a pass that is taken, until the end of a scope, also by an error.
class RecordedForward::Loan {
 public:
  Loan(RecordedForward& owner, const Key& key, Pass pass)
      : owner_(owner), key_(key), pass_(std::move(pass)) {}
  ~Loan() { owner_.give_back(key_, std::move(pass_)); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  kernels::RecordedPass& pass() const { return *pass_; }

 private:
  RecordedForward& owner_;
  const Key& key_;
  Pass pass_;
};

at::Tensor RecordedForward::run(const at::Tensor& input, at::ScalarType dtype,
                                kernels::RecordedPass::Forward forward) {
  if (!input.is_cpu() || at::GradMode::is_enabled() || c10::InferenceMode::is_enabled() ||
      is_watched()) {
    return forward(input.to(dtype));
  }
  const Key key(input.sizes().vec(), dtype, at::get_num_threads());
  auto taken = take(key);
  if (taken.is_wanted) {
    auto recording = kernels::RecordedPass::record(input.to(dtype), forward);
    keep_new(key, std::move(recording.pass));
    return recording.result;
  }
  if (!taken.pass) return forward(input.to(dtype));
  const Loan loan(*this, key, std::move(taken.pass));
  if (!loan.pass().is_confirmed()) return loan.pass().confirm(input.to(dtype), forward);
  return loan.pass().replay(input);
}

}  // namespace fovea::nn
