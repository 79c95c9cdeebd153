// What the files of ShardedParams share; see Note [Pieces].
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "fovea/parallel/flat_layout.h"
#include "fovea/parallel/gradient_hooks.h"
#include "fovea/parallel/part_sum.h"
#include "fovea/parallel/sharded_params.h"

namespace fovea::parallel {

struct ShardedParams::State : std::enable_shared_from_this<State> {
  struct Piece {
    std::string name;
    nn::UnitImpl* unit = nullptr;
    size_t first = 0, last = 0;  // its parameters: [first, last)
    FlatLayout layout;
    at::Tensor buffer;  // [layout.size()]; memory only while is_there
    // With outer parts: [shard_size], of the buffer's dtype, where the parts are.
    at::Tensor share;
    at::ScalarType dtype = at::kFloat;  // of the parts, and of sums of gradients

    bool is_there = false;               // or on its way
    std::unique_ptr<Pending> gathering;  // on its way
    at::Tensor own;                      // [shard_size] that is sent
    // With outer parts: of the share, on its way; what it becomes, and the [part_size] sent.
    std::unique_ptr<Pending> gathering_share;
    at::Tensor gathered_share, own_part;

    size_t num_missing = 0;                 // gradients that are not there yet
    std::optional<PartSum> reducing;        // among the shards
    std::unique_ptr<Pending> joining;       // the sum over the copies
    at::Tensor joined;                      // [part_size] of that
    std::optional<PartSum> reducing_outer;  // the same with outer parts
    at::Tensor kept;  // [shard_size], with outer parts: sums of the backwards before the last one
  };
  struct Place {
    size_t piece = 0;
    int64_t begin = 0;       // in the piece's buffer
    int64_t part_begin = 0;  // of the part, in this rank's part of the buffer
  };

  State(Communicator& shard_ranks, Communicator& copy_ranks, const ShardOptions& shard_options)
      : shards(shard_ranks), copies(copy_ranks), options(shard_options) {}

  void add_piece(const ParamPiece& piece, const ParamValues& values);
  void take_in(const Piece& piece, size_t i, const at::Tensor& value);
  void take_share(Piece& piece);
  void hook_unit(size_t k);

  at::Tensor own_values(const Piece& piece) const;
  void start_share(size_t k);
  void finish_share(size_t k);

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
  void start_join(Piece& piece, const at::Tensor& sum);
  void start_outer(Piece& piece, at::Tensor sum);
  void finish_join(size_t k);

  bool is_resident(size_t k) const { return pieces[k].unit == nullptr; }
  bool has_outer_parts() const { return options.outer != nullptr; }
  bool is_converted() const { return options.wire_dtype == at::kBFloat16; }
  at::ScalarType wire_of(const Piece& piece) const {
    return is_converted() ? options.wire_dtype : piece.dtype;
  }
  at::Device home_of(const Piece& piece) const { return params[piece.first].part.device(); }
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
  std::vector<size_t>* inference_order = nullptr;  // where an InferenceScope wants to know it
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

}  // namespace fovea::parallel
