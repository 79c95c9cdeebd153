// Passes of ranks without samples.
//
// Note [Passes that are announced]
// Which piece is gathered or reduced when follows from a forward and a backward that a rank without
// samples does not run, and may never have run. So in a pass that such a rank accompanies, those
// that compute tell all shards of their copy what comes next, a number each time, and the others
// do the same until the end of the pass is told. A copy of which no shard computes has nothing to
// gather or to reduce; so that it meets the others, the sums over the copies wait for the end of
// the pass and come in the order of the pieces. Pieces of no unit are gathered by nobody, and
// reduced in one order: there is nothing to announce.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/parallel/sharded_params_state.h"

namespace fovea::parallel {

bool ShardedParams::State::has_units() const {
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const Piece& piece) { return piece.unit != nullptr; });
}

// kEndOfPass: also of a rank that has nothing to tell. -> what is to come on all of them.
int64_t ShardedParams::State::announce(int64_t what) {
  const auto all =
      std::llround(max_over_ranks(shards, static_cast<double>(what), "what a pass exchanges next"));
  FOVEA_CHECK(what == kEndOfPass || all == what,
              "a rank is to exchange {} and another one {}; expected all ranks to use the parts of "
              "the model in one order",
              what, all);
  return all;
}

// What the others announce, up to the end of their pass.
void ShardedParams::State::go_along() {
  while (const auto what = announce(kEndOfPass)) {
    const auto k = static_cast<size_t>((what - 1) / 2);
    if (what == to_reduce(k)) {
      start_reduce(k);
      continue;
    }
    start_gather(k);
    release(k);
  }
}

// The sums over the copies, of the last backward of a step.
void ShardedParams::State::join_late() {
  for (size_t k = pieces.size(); k-- > 0;) {
    auto& piece = pieces[k];
    if (has_outer_parts()) {
      const auto sum = piece.kept.defined()
                           ? piece.kept
                           : at::zeros({piece.layout.shard_size()}, buffers.values.options());
      piece.kept.reset();
      start_outer(piece, sum.to(piece.buffer.device()));
    } else if (copies.size() > 1) {
      start_join(piece, own_part(piece, buffers.gradients));
    }
    finish_join(k);
  }
}

void ShardedParams::State::end_accompanied() {
  const at::NoGradGuard no_grad;
  for (size_t k = 0; k < pieces.size(); ++k) release(k);
  if (is_announcing) announce(kEndOfPass);
  is_announcing = false;
  if (is_accompanied && is_reducing && is_last) join_late();
  is_accompanied = false;
}

void ShardedParams::begin_pass(bool is_accompanied) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.is_accompanied = is_accompanied;
  state.is_announcing = is_accompanied && state.has_units();
  state.is_reducing = false;  // until there is a backward
}

void ShardedParams::end_pass() {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (state.is_accompanied) state.end_accompanied();
}

void ShardedParams::idle_pass(IdlePass kind) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  const at::NoGradGuard no_grad;
  state.is_accompanied = true;
  state.is_announcing = false;  // it tells nothing itself
  state.is_reducing = false;
  if (kind != IdlePass::kForward) state.begin_backward(kind == IdlePass::kLastBackward);
  if (state.has_units()) {
    state.go_along();
  } else if (state.is_reducing) {
    for (const size_t k : state.turns) state.start_reduce(k);
  }
  state.finish_reductions();
  if (state.is_reducing && state.is_last && !state.has_outer_parts()) {
    for (auto& piece : state.pieces) {  // of a copy of which no shard computes
      if (state.has_gradients(piece)) continue;
      state.add_gradients(piece, state.own_part(piece, state.buffers.gradients).zero_());
    }
  }
  state.end_accompanied();
}

}  // namespace fovea::parallel
