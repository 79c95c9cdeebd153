// Weights of pieces, whole while they are needed.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "fovea/kernels/tensor_memory.h"
#include "fovea/parallel/rank_error.h"
#include "fovea/parallel/sharded_params_state.h"

namespace fovea::parallel {
namespace {

constexpr int kMostAhead = 2;  // pieces on their way beside the one that is used

}  // namespace

void ShardedParams::State::hook_unit(size_t k) {
  if (is_resident(k)) return;
  const std::weak_ptr<State> weak = weak_from_this();
  pieces[k].unit->before_forward.emplace_back([weak, k](const nn::UnitImpl&) {
    if (const auto state = weak.lock()) state->before_unit(k);
  });
  pieces[k].unit->on_output.emplace_back([weak, k](const at::Tensor& y) {
    if (const auto state = weak.lock()) state->after_unit(k, y);
  });
}

// Of one of the flat buffers: [part_size].
at::Tensor ShardedParams::State::own_part(const Piece& piece, const at::Tensor& flat) const {
  return flat.narrow(0, piece.own_begin, piece.layout.part_size);
}

// What this rank adds to the buffer, [part_size]: a view where parts are on the device that
// computes.
at::Tensor ShardedParams::State::own_values(const Piece& piece) const {
  return own_part(piece, piece.dtype ? buffers.copy : buffers.values).to(piece.buffer.device());
}

// The parts' new values, to the copies that have the same share.
void ShardedParams::State::start_share(size_t k) {
  auto& piece = pieces[k];
  const at::NoGradGuard no_grad;
  const bool is_offloaded = piece.share.device() != piece.buffer.device();
  piece.gathered_share =
      is_offloaded ? at::empty(piece.share.sizes(), piece.buffer.options()) : piece.share;
  piece.gathering_share =
      copies.start_all_gather(piece.gathered_share, own_values(piece), "shares of " + piece.name);
}

void ShardedParams::State::finish_share(size_t k) {
  auto& piece = pieces[k];
  const at::NoGradGuard no_grad;
  piece.gathering_share->wait();
  piece.gathering_share.reset();
  piece.share.copy_(piece.gathered_share);  // nothing where it is the same
  piece.gathered_share.reset();
}

// Also of a piece that is there, with its new values.
void ShardedParams::State::start_gather(size_t k) {
  auto& piece = pieces[k];
  if (piece.gathering) return;
  const at::NoGradGuard no_grad;
  if (is_announcing) announce(to_gather(k));
  if (!piece.is_there) kernels::take_memory(piece.buffer);
  piece.is_there = true;
  const auto own = has_outer_parts() ? piece.share.to(piece.buffer.device()) : own_values(piece);
  piece.gathering = shards.start_all_gather(piece.buffer, own, "weights of " + piece.name);
}

void ShardedParams::State::finish_gather(size_t k) {
  auto& piece = pieces[k];
  if (!piece.gathering) return;
  piece.gathering->wait();
  piece.gathering.reset();
}

void ShardedParams::State::need(size_t k) {
  if (!pieces[k].is_there) start_gather(k);
  finish_gather(k);
}

void ShardedParams::State::release(size_t k) {
  if (is_resident(k) || whole_scopes > 0 || !pieces[k].is_there) return;
  finish_gather(k);
  kernels::give_memory_back(pieces[k].buffer);
  pieces[k].is_there = false;
}

// after: which piece is used after which.
void ShardedParams::State::fetch_ahead(size_t k, const std::vector<std::optional<size_t>>& after) {
  for (int i = 0; i < kMostAhead && after[k]; ++i) {
    k = *after[k];
    if (!pieces[k].is_there) start_gather(k);
  }
}

void ShardedParams::State::before_unit(size_t k) {
  const std::lock_guard lock(mutex);
  if (inference_order != nullptr) inference_order->push_back(k);
  need(k);
  if (is_backward) return;  // computed once more
  if (at::GradMode::is_enabled()) {
    if (!is_announcing) {  // else others would fetch in another order in the passes that follow
      if (last_unit) {
        next_of[*last_unit] = k;
        previous_of[k] = *last_unit;
      }
      last_unit = k;
    }
    forward_order.push_back(k);
  }
  fetch_ahead(k, next_of);
}

void ShardedParams::State::after_unit(size_t k, const at::Tensor& y) {
  const std::lock_guard lock(mutex);
  const bool goes_back = at::GradMode::is_enabled() && y.requires_grad() && !y.is_leaf();
  if (goes_back) {
    y.register_hook([weak = weak_from_this(), k](const at::Tensor&) {
      if (const auto state = weak.lock()) state->before_unit_backward(k);
    });
  }
  if (is_backward || (goes_back && !options.reshard_after_forward)) return;
  release(k);
}

void ShardedParams::State::before_unit_backward(size_t k) {
  const std::lock_guard lock(mutex);
  need(k);
  fetch_ahead(k, previous_of);
}

void ShardedParams::values_changed(bool has_copy) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (state.buffers.copy.defined() && !has_copy) {
    const at::NoGradGuard no_grad;
    state.buffers.copy.copy_(state.buffers.values);
  }
  if (state.has_left) return;
  for (size_t k = 0; k < state.pieces.size(); ++k) {
    state.finish_gather(k);
    if (state.has_outer_parts()) state.start_share(k);
  }
  for (size_t k = 0; k < state.pieces.size(); ++k) {
    if (state.has_outer_parts()) state.finish_share(k);
    if (state.pieces[k].is_there) state.start_gather(k);
  }
  for (size_t k = 0; k < state.pieces.size(); ++k) state.finish_gather(k);
  for (const auto& param : state.params) param.whole.unsafeGetTensorImpl()->bump_version();
}

void ShardedParams::leave_ranks() {
  const std::lock_guard lock(state_->mutex);
  state_->has_left = true;
}

ShardedParams::WholeScope::WholeScope(ShardedParams* params) : params_(params) {
  if (params_ == nullptr) return;
  State& state = *params_->state_;
  const std::lock_guard lock(state.mutex);
  state.whole_scopes += 1;
  for (size_t k = 0; k < state.pieces.size(); ++k) {
    if (!state.pieces[k].is_there) state.start_gather(k);
  }
  for (size_t k = 0; k < state.pieces.size(); ++k) state.finish_gather(k);
}

ShardedParams::WholeScope::~WholeScope() {
  if (params_ == nullptr) return;
  State& state = *params_->state_;
  const std::lock_guard lock(state.mutex);
  state.whole_scopes -= 1;
  try {
    for (size_t k = 0; k < state.pieces.size(); ++k) state.release(k);
  } catch (const RankError&) {
    // Of a gather that an error has left behind: what is on its way up says it.
  }
}

}  // namespace fovea::parallel
