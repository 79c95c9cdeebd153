// Gradients of pieces, summed over the ranks while backward goes on.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/parallel/sharded_params_state.h"

namespace fovea::parallel {
namespace {

constexpr size_t kMostUnderWay = 2;  // reductions, each with buffers of its own

}  // namespace

// The last forward turned round: gradients come in about that order. Equal on all ranks, as the
// forward's order is.
void ShardedParams::State::choose_turns() {
  std::vector<size_t> order;
  std::vector<bool> is_in(pieces.size(), false);
  const auto add = [&](size_t k) {
    if (!is_in[k]) order.push_back(k);
    is_in[k] = true;
  };
  for (auto k = forward_order.rbegin(); k != forward_order.rend(); ++k) add(*k);
  for (size_t k = pieces.size(); k-- > 0;) {
    if (!is_resident(k)) add(k);
  }
  for (size_t k = pieces.size(); k-- > 0;) add(k);
  turns = std::move(order);
  forward_order.clear();
}

void ShardedParams::State::on_gradient(size_t i) {
  const std::lock_guard lock(mutex);
  if (!is_backward) return;
  FOVEA_CHECK(!has_gradient[i],
              "{} got its gradient in two pieces, and the first one may be on its way already",
              params[i].name);
  has_gradient[i] = true;
  auto& piece = pieces[places[i].piece];
  if (--piece.num_missing > 0) return;
  release(places[i].piece);
  if (is_reducing) start_ready();
}

void ShardedParams::State::start_ready() {
  while (next_turn < turns.size() && pieces[turns[next_turn]].num_missing == 0) {
    start_reduce(turns[next_turn++]);
  }
}

void ShardedParams::State::start_reduce(size_t k) {
  const at::NoGradGuard no_grad;
  while (under_way.size() >= kMostUnderWay) {
    finish_reduce(under_way.front());
    under_way.pop_front();
  }
  if (is_announcing) announce(to_reduce(k));
  auto& piece = pieces[k];
  // Gradients come in the dtype of what was gathered: those of bfloat16 travel as they are.
  const auto dtype_of_sent = is_converted() ? options.wire_dtype : piece.buffer.scalar_type();
  const auto sent = at::empty({piece.layout.size()}, piece.buffer.options().dtype(dtype_of_sent));
  for (size_t i = piece.first; i < piece.last; ++i) {
    const int64_t begin = places[i].begin, size = params[i].whole.numel();
    const int64_t end = i + 1 < piece.last ? places[i + 1].begin : sent.numel();
    auto& grad = params[i].whole.mutable_grad();
    auto target = sent.narrow(0, begin, size);
    if (grad.defined()) {
      target.view(grad.sizes()).copy_(grad);
    } else {
      target.zero_();
    }
    sent.narrow(0, begin + size, end - begin - size).zero_();
    grad.reset();
  }
  const auto target =
      has_outer_parts() ? at::Tensor() : direct_target(piece, piece.buffer.device());
  piece.reducing.emplace(shards, sent, dtype, "gradients of " + piece.name, target);
  under_way.push_back(k);
}

// Whether any of its parts has one, to which the sum is to be added.
bool ShardedParams::State::has_gradients(const Piece& piece) const {
  return std::any_of(params.begin() + piece.first, params.begin() + piece.last,
                     [](const ShardedParam& param) { return param.part.grad().defined(); });
}

// The parts' gradients, where the sum may become them as it is; else nothing.
at::Tensor ShardedParams::State::direct_target(const Piece& piece, const at::Device& of_sum) const {
  if (has_gradients(piece) || home() != of_sum) return {};
  return own_part(piece, buffers.gradients);
}

void ShardedParams::State::finish_reduce(size_t k) {
  const at::NoGradGuard no_grad;
  auto& piece = pieces[k];
  const auto sum = piece.reducing->finish();  // [shard_size]
  piece.reducing.reset();
  if (has_outer_parts()) {
    return is_last && !is_accompanied ? start_outer(piece, sum) : keep_outer(piece, sum);
  }
  const auto gradients = add_gradients(piece, sum);
  if (is_last && copies.size() > 1 && !is_accompanied) start_join(piece, gradients);
}

// sum: [part_size] -> the same of the parts' gradients, which have it in them now.
at::Tensor ShardedParams::State::add_gradients(const Piece& piece, const at::Tensor& sum) {
  const auto gradients = own_part(piece, buffers.gradients);
  if (!has_gradients(piece)) {
    if (!sum.is_alias_of(gradients)) gradients.copy_(sum);
    for (size_t i = piece.first; i < piece.last; ++i) params[i].part.mutable_grad() = grad_views[i];
    return gradients;
  }
  for (size_t i = piece.first; i < piece.last; ++i) {
    kernels::move_gradient(params[i].part, grad_views[i]);
  }
  return gradients.add_(sum.to(home()));
}

// The sum over the copies, which have equal parts. gradients: [part_size], of the parts.
void ShardedParams::State::start_join(Piece& piece, const at::Tensor& gradients) {
  piece.joined = gradients.to(piece.buffer.device());
  piece.joining = copies.start_all_reduce(piece.joined, "gradients of " + piece.name);
}

// To what the backwards before it have come to.
void ShardedParams::State::keep_outer(Piece& piece, at::Tensor sum) {
  if (piece.kept.defined()) sum.add_(piece.kept.to(sum.device()));
  piece.kept = sum.to(home());
}

// See Note [Outer parts].
void ShardedParams::State::start_outer(Piece& piece, at::Tensor sum) {
  if (piece.kept.defined()) sum.add_(piece.kept.to(sum.device()));
  piece.kept.reset();
  piece.reducing_outer.emplace(copies, sum.to(wire()), dtype, "gradients of " + piece.name,
                               direct_target(piece, sum.device()));
}

void ShardedParams::State::finish_join(size_t k) {
  auto& piece = pieces[k];
  if (piece.reducing_outer) {
    const auto sum = piece.reducing_outer->finish();  // [part_size]
    piece.reducing_outer.reset();
    add_gradients(piece, sum);
  }
  if (!piece.joining) return;
  piece.joining->wait();
  piece.joining.reset();
  const auto gradients = own_part(piece, buffers.gradients);
  if (!piece.joined.is_alias_of(gradients)) gradients.copy_(piece.joined);
  piece.joined.reset();
}

void ShardedParams::State::begin_backward(bool is_last_of_step) {
  make_gradients();
  is_last = is_last_of_step;
  is_reducing = options.reduce_every_backward || is_last;
  last_unit.reset();
  if (turns.empty() || !forward_order.empty()) choose_turns();
  next_turn = 0;
  has_gradient.assign(params.size(), false);
  for (auto& piece : pieces) piece.num_missing = piece.last - piece.first;
}

void ShardedParams::State::finish_reductions() {
  for (const size_t k : under_way) finish_reduce(k);
  under_way.clear();
}

void ShardedParams::before_backward(bool is_last) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.begin_backward(is_last);
  state.is_backward = true;
}

void ShardedParams::after_backward() {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  const at::NoGradGuard no_grad;
  state.is_backward = false;
  for (size_t k = 0; k < state.pieces.size(); ++k) state.release(k);
  if (!state.is_reducing) return;
  while (state.next_turn < state.turns.size()) state.start_reduce(state.turns[state.next_turn++]);
  state.finish_reductions();
  if (state.is_accompanied) return;  // end_pass joins them
  for (const size_t k : state.turns) state.finish_join(k);
}

}  // namespace fovea::parallel
