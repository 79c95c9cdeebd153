// N ranks share out one copy.
#include "fovea/parallel/sharded_params.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/nn/give_data.h"
#include "fovea/parallel/sharded_params_state.h"

namespace fovea::parallel {

// Which of its parameters lies where: that goes by numbers of elements alone.
void ShardedParams::State::add_piece(const ParamPiece& from) {
  Piece piece;
  piece.name = from.name;
  piece.unit = from.unit;
  piece.first = params.size();
  if (from.dtype && !from.params.empty() && *from.dtype != from.params[0].second.scalar_type()) {
    piece.dtype = from.dtype;
  }
  int64_t end = 0;
  for (const auto& [name, param] : from.params) {
    places.push_back({.piece = pieces.size(), .begin = end});
    if (params.empty()) dtype = param.scalar_type();
    params.push_back({.name = name, .whole = param, .shape = param.sizes().vec(), .part = {}});
    FOVEA_CHECK(param.is_leaf() && param.requires_grad() && param.scalar_type() == dtype,
                "{} is no leaf of the dtype of {} that gets a gradient", name, params[0].name);
    end += kernels::flat_size(param.numel());
  }
  piece.last = params.size();
  piece.layout = kernels::FlatLayout::of(end, shards.size(), has_outer_parts() ? copies.size() : 1);
  if (!pieces.empty()) {
    piece.own_begin = pieces.back().own_begin + pieces.back().layout.part_size;
  }
  for (size_t i = piece.first; i < piece.last; ++i) place_part(piece, i);
  pieces.push_back(std::move(piece));
}

void ShardedParams::State::place_part(const Piece& piece, size_t i) {
  auto& param = params[i];
  const auto size = param.whole.numel(), begin = places[i].begin;
  const auto own_begin =
      piece.layout.part_begin(shards.rank(), has_outer_parts() ? copies.rank() : 0);
  const auto own_end = own_begin + piece.layout.part_size;
  const auto first = std::clamp<int64_t>(own_begin - begin, 0, size);
  const auto last = std::clamp<int64_t>(own_end - begin, 0, size);
  param.first = last > first ? first : 0;
  param.begin =
      piece.own_begin + std::clamp<int64_t>(begin + first - own_begin, 0, piece.layout.part_size);
  part_sizes.push_back(last - first);
}

// options: of a parameter's value.
void ShardedParams::State::make_buffers(const at::TensorOptions& of_value) {
  const bool is_offloaded = options.cpu_offload && of_value.device().is_cuda();
  auto own = of_value.requires_grad(false).dtype(dtype);
  if (is_offloaded) own = own.device(at::kCPU).pinned_memory(true);  // copies at the bus's speed
  const std::vector<int64_t> size = {pieces.back().own_begin + pieces.back().layout.part_size};
  buffers.values = at::zeros(size, own);
  for (const auto& piece : pieces) {
    if (!piece.dtype) continue;
    FOVEA_CHECK(!buffers.copy.defined() || buffers.copy.scalar_type() == *piece.dtype,
                "{} is to be gathered in {}, and others in {}; expected one dtype beside {}",
                piece.name, c10::toString(*piece.dtype), c10::toString(buffers.copy.scalar_type()),
                c10::toString(dtype));
    if (!buffers.copy.defined()) buffers.copy = at::zeros(size, own.dtype(*piece.dtype));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].part = kernels::flat_view(buffers.values, params[i].begin, {part_sizes[i]});
    params[i].part.set_requires_grad(true);
  }
}

// Not before somebody wants them: a start has whole parameters beside its parts.
void ShardedParams::State::make_gradients() {
  if (buffers.gradients.defined()) return;
  const auto& values = buffers.values;
  const bool is_pinned = values.is_cpu() && values.is_pinned();
  buffers.gradients = at::zeros(values.sizes(), values.options().pinned_memory(is_pinned));
  for (size_t i = 0; i < params.size(); ++i) {
    grad_views.push_back(kernels::flat_view(buffers.gradients, params[i].begin, {part_sizes[i]}));
  }
}

void ShardedParams::State::fill_piece(size_t k, const ParamValues& values) {
  auto& piece = pieces[k];
  for (size_t i = piece.first; i < piece.last; ++i) {
    const auto value = values ? values(params[i].name) : params[i].whole.detach();
    if (!buffers.values.defined()) make_buffers(value.options());
    if (i == piece.first) {
      const auto of_buffer = value.options().requires_grad(false);
      piece.buffer = at::zeros({piece.layout.size()}, of_buffer.dtype(piece.dtype.value_or(dtype)));
    }
    take_in(piece, i, value);
  }
  if (piece.dtype) own_part(piece, buffers.copy).copy_(own_part(piece, buffers.values));
  if (has_outer_parts()) take_share(piece);
  piece.is_there = true;
  release(k);
}

// Of the values that the buffer has.
void ShardedParams::State::take_share(Piece& piece) {
  const auto& layout = piece.layout;
  piece.share = layout.num_shards == 1 ? piece.buffer
                                       : piece.buffer.narrow(0, layout.shard_begin(shards.rank()),
                                                             layout.shard_size());
  if (piece.unit != nullptr) piece.share = piece.share.clone().to(home());
}

// Moves a parameter into its piece's buffer, and this rank's part of it into the flat one.
void ShardedParams::State::take_in(const Piece& piece, size_t i, const at::Tensor& value) {
  const auto& param = params[i];
  param.part.detach().copy_(value.detach().reshape({-1}).narrow(0, param.first, part_sizes[i]));
  const auto view = kernels::flat_view(piece.buffer, places[i].begin, param.shape);
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
  for (const auto& piece : pieces) state_->add_piece(piece);
  FOVEA_CHECK(!state_->params.empty(), "no parameters to share out; unfreeze some");
  const auto count = state_->pieces.size();
  {
    const at::NoGradGuard no_grad;
    for (size_t k = 0; k < count; ++k) state_->fill_piece(k, values);
  }
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
const kernels::FlatBuffers& ShardedParams::buffers() const {
  state_->make_gradients();
  return state_->buffers;
}
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
