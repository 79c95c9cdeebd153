// N ranks share out one copy.
#include "fovea/parallel/sharded_params.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/parallel/gradient_hooks.h"

namespace fovea::parallel {
namespace {

constexpr int64_t kPartAlignment = 16;  // elements, as in the optimizer's buffers
constexpr size_t kMostUnderWay = 1;     // reductions, each with buffers of its own

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

void take_memory(const at::Tensor& buffer) {
  auto* storage = buffer.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<size_t>(buffer.numel()) * buffer.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void give_memory_back(const at::Tensor& buffer) {
  auto* storage = buffer.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, buffer.device()));
  storage->set_nbytes(0);
}

at::Tensor& grad_of(const at::Tensor& part) {
  auto& grad = part.mutable_grad();
  if (!grad.defined()) grad = at::zeros_like(part.detach());
  return grad;
}

}  // namespace

struct ShardedParams::State : std::enable_shared_from_this<State> {
  struct Piece {
    std::string name;
    nn::UnitImpl* unit = nullptr;
    size_t first = 0, last = 0;  // its parameters: [first, last)
    at::Tensor buffer;           // [N * part_size]; memory only while is_there
    int64_t part_size = 0;
    at::ScalarType dtype = at::kFloat;  // of the parts, and of sums of gradients

    bool is_there = false;               // or on its way
    std::unique_ptr<Pending> gathering;  // on its way
    at::Tensor own;                      // [part_size] that is sent

    size_t num_missing = 0;  // gradients that are not there yet
    std::unique_ptr<Pending> reducing;
    at::Tensor sent,
        received;  // [N * part_size]; received: [part_size], or as sent where converted
    std::unique_ptr<Pending> joining;  // the sum over the copies
  };
  struct Place {
    size_t piece = 0;
    int64_t begin = 0;       // in the piece's buffer
    int64_t part_begin = 0;  // of the part, in this rank's part of the buffer
  };

  State(Communicator& shard_ranks, Communicator& copy_ranks, const ShardOptions& shard_options)
      : shards(shard_ranks), copies(copy_ranks), options(shard_options) {}

  void add_piece(const ParamPiece& piece);
  void take_in(const Piece& piece, size_t i);
  void hook_unit(size_t k);

  void start_gather(size_t k);
  void finish_gather(size_t k);
  void need(size_t k);
  void release(size_t k);
  void before_unit(size_t k);
  void after_unit(size_t k, const at::Tensor& y);
  void before_unit_backward(size_t k);

  void choose_turns();
  void on_gradient(size_t i);
  void start_ready();
  void start_reduce(size_t k);
  void finish_reduce(size_t k);
  void finish_join(size_t k);

  bool is_resident(size_t k) const { return pieces[k].unit == nullptr; }
  bool is_converted() const { return options.wire_dtype == at::kBFloat16; }
  template <class Body>
  void for_each_part(const Piece& piece, const at::Tensor& own, Body body) const;

  Communicator& shards;
  Communicator& copies;
  ShardOptions options;
  std::mutex mutex;  // hooks run in the threads of backward
  std::vector<Piece> pieces;
  std::vector<ShardedParam> params;
  std::vector<Place> places;  // by parameter
  int64_t whole_scopes = 0;

  // Of forward: which piece followed which, for fetching ahead.
  std::vector<size_t> forward_order;
  std::optional<size_t> last_unit;
  std::vector<std::optional<size_t>> next_of, previous_of;  // by piece

  // Of a backward.
  bool is_backward = false, is_reducing = false, is_last = false;
  std::vector<bool> has_gradient;  // by parameter
  std::vector<size_t> turns;       // pieces in the order in which they are reduced
  size_t next_turn = 0;
  std::deque<size_t> under_way;

  GradientHooks hooks;  // of all of `params`
};

// body(parameter, its range of `own`): own is laid out as this rank's part of the piece.
template <class Body>
void ShardedParams::State::for_each_part(const Piece& piece, const at::Tensor& own,
                                         Body body) const {
  for (size_t i = piece.first; i < piece.last; ++i) {
    const auto size = params[i].part.numel();
    if (size > 0) body(params[i], own.narrow(0, places[i].part_begin, size));
  }
}

void ShardedParams::State::add_piece(const ParamPiece& from) {
  const at::NoGradGuard no_grad;
  Piece piece;
  piece.name = from.name;
  piece.unit = from.unit;
  piece.first = params.size();
  int64_t end = 0;
  for (const auto& [name, param] : from.params) {
    FOVEA_CHECK(param.is_leaf() && param.requires_grad() &&
                    param.scalar_type() == from.params[0].second.scalar_type(),
                "{} is no leaf of the dtype of {} that gets a gradient", name,
                from.params[0].first);
    places.push_back({.piece = pieces.size(), .begin = end});
    params.push_back({.name = name, .whole = param, .shape = param.sizes().vec(), .part = {}});
    end += round_up(param.numel(), kPartAlignment);
  }
  piece.last = params.size();
  piece.part_size = round_up(end, kPartAlignment * shards.size()) / shards.size();
  const auto& first_param = from.params[0].second;
  piece.dtype = first_param.scalar_type();
  piece.buffer =
      at::zeros({piece.part_size * shards.size()},
                first_param.options().dtype(from.dtype.value_or(piece.dtype)).requires_grad(false));
  for (size_t i = piece.first; i < piece.last; ++i) take_in(piece, i);
  piece.is_there = true;
  pieces.push_back(std::move(piece));
}

// Moves a parameter into its piece's buffer; this rank's part of it stands by itself.
void ShardedParams::State::take_in(const Piece& piece, size_t i) {
  auto& param = params[i];
  auto& place = places[i];
  const auto size = param.whole.numel(), own_begin = shards.rank() * piece.part_size;
  const auto first = std::clamp<int64_t>(own_begin - place.begin, 0, size);
  const auto last = std::clamp<int64_t>(own_begin + piece.part_size - place.begin, 0, size);
  param.first = last > first ? first : 0;
  place.part_begin = place.begin + first - own_begin;
  param.part = param.whole.detach().reshape({-1}).narrow(0, first, last - first).clone();
  param.part.set_requires_grad(true);
  at::Tensor view;
  {
    // Below ADInplaceOrView a view has its own version counter.
    const at::AutoDispatchBelowADInplaceOrView guard;
    view = piece.buffer.narrow(0, place.begin, size).view(param.shape);
  }
  view.copy_(param.whole);
  param.whole.set_data(view);
}

void ShardedParams::State::hook_unit(size_t k) {
  if (is_resident(k)) return;
  const std::weak_ptr<State> weak = weak_from_this();
  pieces[k].unit->before_forward.emplace_back([weak, k](nn::UnitImpl&) {
    if (const auto state = weak.lock()) state->before_unit(k);
  });
  pieces[k].unit->on_output.emplace_back([weak, k](const at::Tensor& y) {
    if (const auto state = weak.lock()) state->after_unit(k, y);
  });
}

// Also of a piece that is there, with its new values.
void ShardedParams::State::start_gather(size_t k) {
  auto& piece = pieces[k];
  if (piece.gathering) return;
  const at::NoGradGuard no_grad;
  if (!piece.is_there) take_memory(piece.buffer);
  piece.is_there = true;
  piece.own = at::zeros({piece.part_size}, piece.buffer.options());
  for_each_part(piece, piece.own, [](const ShardedParam& param, const at::Tensor& own) {
    own.copy_(param.part.detach());
  });
  piece.gathering = shards.start_all_gather(piece.buffer, piece.own, "weights of " + piece.name);
}

void ShardedParams::State::finish_gather(size_t k) {
  auto& piece = pieces[k];
  if (!piece.gathering) return;
  piece.gathering->wait();
  piece.gathering.reset();
  piece.own.reset();
}

void ShardedParams::State::need(size_t k) {
  if (!pieces[k].is_there) start_gather(k);
  finish_gather(k);
}

void ShardedParams::State::release(size_t k) {
  if (is_resident(k) || whole_scopes > 0 || !pieces[k].is_there) return;
  finish_gather(k);
  give_memory_back(pieces[k].buffer);
  pieces[k].is_there = false;
}

void ShardedParams::State::before_unit(size_t k) {
  const std::lock_guard lock(mutex);
  need(k);
  if (is_backward) return;  // computed once more
  if (at::GradMode::is_enabled()) {
    if (last_unit) {
      next_of[*last_unit] = k;
      previous_of[k] = *last_unit;
    }
    last_unit = k;
    forward_order.push_back(k);
  }
  if (next_of[k] && !pieces[*next_of[k]].is_there) start_gather(*next_of[k]);
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
  if (previous_of[k] && !pieces[*previous_of[k]].is_there) start_gather(*previous_of[k]);
}

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
  auto& piece = pieces[k];
  const auto options_sent =
      piece.buffer.options().dtype(is_converted() ? options.wire_dtype : piece.dtype);
  piece.sent = at::empty({piece.buffer.numel()}, options_sent);
  for (size_t i = piece.first; i < piece.last; ++i) {
    const int64_t begin = places[i].begin, size = params[i].whole.numel();
    const int64_t end = i + 1 < piece.last ? places[i + 1].begin : piece.sent.numel();
    auto& grad = params[i].whole.mutable_grad();
    auto target = piece.sent.narrow(0, begin, size);
    if (grad.defined()) {
      target.copy_(grad.reshape({-1}));
    } else {
      target.zero_();
    }
    piece.sent.narrow(0, begin + size, end - begin - size).zero_();
    grad.reset();
  }
  const auto what = "gradients of " + piece.name;
  piece.received = at::empty({is_converted() ? piece.sent.numel() : piece.part_size}, options_sent);
  piece.reducing = is_converted() ? shards.start_all_to_all(piece.received, piece.sent, what)
                                  : shards.start_reduce_scatter(piece.received, piece.sent, what);
  under_way.push_back(k);
}

void ShardedParams::State::finish_reduce(size_t k) {
  auto& piece = pieces[k];
  piece.reducing->wait();
  piece.reducing.reset();
  piece.sent.reset();
  if (is_converted()) {
    piece.received = piece.received.view({shards.size(), piece.part_size})
                         .to(piece.dtype)
                         .sum(0);  // [part_size]
  }
  const bool is_joined = is_last && copies.size() > 1;
  for_each_part(piece, piece.received, [&](const ShardedParam& param, const at::Tensor& sum) {
    if (is_joined) {
      sum.add_(grad_of(param.part));
    } else {
      grad_of(param.part).add_(sum);
    }
  });
  if (is_joined) {
    piece.joining = copies.start_all_reduce(piece.received, "gradients of " + piece.name);
  } else {
    piece.received.reset();
  }
}

void ShardedParams::State::finish_join(size_t k) {
  auto& piece = pieces[k];
  if (!piece.joining) return;
  piece.joining->wait();
  piece.joining.reset();
  for_each_part(piece, piece.received, [](const ShardedParam& param, const at::Tensor& sum) {
    grad_of(param.part).copy_(sum);
  });
  piece.received.reset();
}

ShardedParams::ShardedParams(std::vector<ParamPiece> pieces, Communicator& shards,
                             Communicator& copies, const ShardOptions& options)
    : state_(std::make_shared<State>(shards, copies, options)) {
  for (const auto& piece : pieces) state_->add_piece(piece);
  FOVEA_CHECK(!state_->params.empty(), "no parameters to share out; unfreeze some");
  const auto count = state_->pieces.size();
  state_->next_of.resize(count);
  state_->previous_of.resize(count);
  for (size_t i = 0; i < state_->params.size(); ++i) {
    const auto& param = state_->params[i];
    state_->hooks.add(param.whole, param.name,
                      [state = state_.get(), i] { state->on_gradient(i); });
  }
  for (size_t k = 0; k < count; ++k) {
    state_->hook_unit(k);
    state_->release(k);
  }
}

ShardedParams::~ShardedParams() = default;

const std::vector<ShardedParam>& ShardedParams::params() const { return state_->params; }
Communicator& ShardedParams::shards() const { return state_->shards; }
Communicator& ShardedParams::copies() const { return state_->copies; }

int64_t ShardedParams::num_pieces() const { return static_cast<int64_t>(state_->pieces.size()); }

int64_t ShardedParams::piece_bytes(int64_t piece) const {
  const auto& buffer = state_->pieces.at(static_cast<size_t>(piece)).buffer;
  return buffer.numel() * static_cast<int64_t>(buffer.element_size());
}

void ShardedParams::before_backward(bool is_last) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.is_backward = true;
  state.is_last = is_last;
  state.is_reducing = state.options.reduce_every_backward || is_last;
  state.last_unit.reset();
  if (state.turns.empty() || !state.forward_order.empty()) state.choose_turns();
  state.next_turn = 0;
  state.has_gradient.assign(state.params.size(), false);
  for (auto& piece : state.pieces) piece.num_missing = piece.last - piece.first;
}

void ShardedParams::after_backward() {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  const at::NoGradGuard no_grad;
  state.is_backward = false;
  for (size_t k = 0; k < state.pieces.size(); ++k) state.release(k);
  if (!state.is_reducing) return;
  while (state.next_turn < state.turns.size()) state.start_reduce(state.turns[state.next_turn++]);
  for (const size_t k : state.under_way) state.finish_reduce(k);
  state.under_way.clear();
  for (const size_t k : state.turns) state.finish_join(k);
}

void ShardedParams::values_changed() {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  for (size_t k = 0; k < state.pieces.size(); ++k) {
    state.finish_gather(k);
    if (state.pieces[k].is_there) state.start_gather(k);
  }
  for (size_t k = 0; k < state.pieces.size(); ++k) state.finish_gather(k);
  for (const auto& param : state.params) param.whole.unsafeGetTensorImpl()->bump_version();
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
  for (size_t k = 0; k < state.pieces.size(); ++k) state.release(k);
}

}  // namespace fovea::parallel
