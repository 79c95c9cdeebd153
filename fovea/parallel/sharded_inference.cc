// Pieces gathered for forwards without gradients; see Note [Forwards that differ in number].
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/parallel/sharded_params_state.h"

namespace fovea::parallel {

ShardedParams::InferenceScope::InferenceScope(ShardedParams* params, nn::UnitImpl& model)
    : params_(params), model_(model) {
  if (params_ == nullptr) return;
  const State& state = *params_->state_;
  const auto& pieces = state.pieces;
  const bool has_units = std::any_of(pieces.begin(), pieces.end(),
                                     [](const State::Piece& piece) { return piece.unit; });
  if (!has_units || !state.options.reshard_after_forward) {
    whole_ = std::make_unique<WholeScope>(params_);
    params_ = nullptr;
    return;
  }
  model_.before_forward.emplace_back([this](const nn::UnitImpl&) {
    anyone_has_a_forward(true);
    order_.clear();
  });
  params_->state_->inference_order = &order_;
}

ShardedParams::InferenceScope::~InferenceScope() {
  if (params_ == nullptr) return;
  params_->state_->inference_order = nullptr;
  model_.before_forward.pop_back();
}

bool ShardedParams::InferenceScope::anyone_has_a_forward(bool is_own) {
  return max_over_ranks(params_->shards(), is_own ? 1 : 0, "whether a rank has a forward left") > 0;
}

void ShardedParams::InferenceScope::finish() {
  if (params_ == nullptr) return;
  const at::NoGradGuard no_grad;
  State& state = *params_->state_;
  state.inference_order = nullptr;  // what follows is no forward of this rank
  while (anyone_has_a_forward(false)) {
    FOVEA_CHECK(!order_.empty(),
                "another rank has a forward left, but this one had none; expected one at least");
    for (const auto k : order_) {
      state.before_unit(k);
      const std::lock_guard lock(state.mutex);
      state.release(k);
    }
  }
  state.inference_order = &order_;
  const std::lock_guard lock(state.mutex);
  for (size_t k = 0; k < state.pieces.size(); ++k) state.release(k);  // fetched ahead, not used
}

}  // namespace fovea::parallel
