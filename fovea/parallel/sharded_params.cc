// N ranks share out one copy.
#include "fovea/parallel/sharded_params.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/nn/give_data.h"
#include "fovea/parallel/sharded_params_state.h"

namespace fovea::parallel {
namespace {

constexpr int64_t kPartAlignment = 16;  // elements, as in the optimizer's buffers

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

}  // namespace

void ShardedParams::State::add_piece(const ParamPiece& from, const ParamValues& values) {
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
  piece.layout =
      FlatLayout::of(end, shards.size(), has_outer_parts() ? copies.size() : 1, kPartAlignment);
  piece.dtype = from.params[0].second.scalar_type();
  for (size_t i = piece.first; i < piece.last; ++i) {
    const auto value = values ? values(params[i].name) : params[i].whole;
    if (i == piece.first) {
      const auto options = value.options().dtype(from.dtype.value_or(piece.dtype));
      piece.buffer = at::zeros({piece.layout.size()}, options.requires_grad(false));
    }
    take_in(piece, i, value);
  }
  if (has_outer_parts()) take_share(piece);
  piece.is_there = true;
  pieces.push_back(std::move(piece));
  release(pieces.size() - 1);
}

// Of the values that the buffer has.
void ShardedParams::State::take_share(Piece& piece) {
  const auto& layout = piece.layout;
  piece.share = layout.num_shards == 1 ? piece.buffer
                                       : piece.buffer.narrow(0, layout.shard_begin(shards.rank()),
                                                             layout.shard_size());
  if (piece.unit != nullptr) piece.share = piece.share.clone().to(home_of(piece));
}

// Moves a parameter into its piece's buffer; this rank's part of it stands by itself.
void ShardedParams::State::take_in(const Piece& piece, size_t i, const at::Tensor& value) {
  auto& param = params[i];
  auto& place = places[i];
  const auto size = param.whole.numel();
  const auto own_begin =
      piece.layout.part_begin(shards.rank(), has_outer_parts() ? copies.rank() : 0);
  const auto first = std::clamp<int64_t>(own_begin - place.begin, 0, size);
  const auto last = std::clamp<int64_t>(own_begin + piece.layout.part_size - place.begin, 0, size);
  param.first = last > first ? first : 0;
  place.part_begin = place.begin + first - own_begin;
  param.part = value.detach().reshape({-1}).narrow(0, first, last - first).clone();
  if (options.cpu_offload && param.part.is_cuda()) {
    param.part = param.part.to(at::kCPU).pin_memory();  // copies to and fro at the bus's speed
  }
  param.part.set_requires_grad(true);
  at::Tensor view;
  {
    // Below ADInplaceOrView a view has its own version counter.
    const at::AutoDispatchBelowADInplaceOrView guard;
    view = piece.buffer.narrow(0, place.begin, size).view(param.shape);
  }
  view.copy_(value);
  nn::give_data(param.whole, view);
}

ShardedParams::ShardedParams(std::vector<ParamPiece> pieces, Communicator& shards,
                             Communicator& copies, const ShardOptions& options,
                             const ParamValues& values)
    : state_(std::make_shared<State>(shards, copies, options)) {
  FOVEA_CHECK(!options.outer || options.outer->size() == shards.size() * copies.size(),
              "parts of {} ranks for {} copies of {} shards", options.outer->size(), copies.size(),
              shards.size());
  for (const auto& piece : pieces) state_->add_piece(piece, values);
  FOVEA_CHECK(!state_->params.empty(), "no parameters to share out; unfreeze some");
  const auto count = state_->pieces.size();
  state_->next_of.resize(count);
  state_->previous_of.resize(count);
  for (size_t i = 0; i < state_->params.size(); ++i) {
    const auto& param = state_->params[i];
    state_->hooks.add(param.whole, param.name,
                      [state = state_.get(), i] { state->on_gradient(i); });
  }
  for (size_t k = 0; k < count; ++k) state_->hook_unit(k);
}

ShardedParams::~ShardedParams() = default;

const std::vector<ShardedParam>& ShardedParams::params() const { return state_->params; }
Communicator& ShardedParams::shards() const { return state_->shards; }
Communicator& ShardedParams::copies() const { return state_->copies; }
Communicator& ShardedParams::owners() const {
  return has_outer_parts() ? *state_->options.outer : state_->shards;
}
bool ShardedParams::has_outer_parts() const { return state_->has_outer_parts(); }

std::vector<std::pair<std::string, at::Tensor>> ShardedParams::shares() const {
  std::vector<std::pair<std::string, at::Tensor>> result;
  if (has_outer_parts()) {
    for (const auto& piece : state_->pieces) result.emplace_back(piece.name, piece.share);
  } else {
    for (const auto& param : state_->params) result.emplace_back(param.name, param.part);
  }
  return result;
}

int64_t ShardedParams::num_pieces() const { return static_cast<int64_t>(state_->pieces.size()); }

int64_t ShardedParams::piece_bytes(int64_t piece) const {
  const auto& buffer = state_->pieces.at(static_cast<size_t>(piece)).buffer;
  return buffer.numel() * static_cast<int64_t>(buffer.element_size());
}

}  // namespace fovea::parallel
