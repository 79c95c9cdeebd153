// What the files of ShardedParams share; see Note [Pieces].
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "fovea/parallel/gradient_hooks.h"
#include "fovea/parallel/part_sum.h"
#include "fovea/parallel/sharded_params.h"

namespace fovea::parallel {

// What a rank is about to exchange with the other shards; see Note [Passes that are announced].
inline constexpr int64_t kEndOfPass = 0;
inline int64_t to_gather(size_t piece) { return 2 * static_cast<int64_t>(piece) + 1; }
inline int64_t to_reduce(size_t piece) { return 2 * static_cast<int64_t>(piece) + 2; }

struct ShardedParams::State : std::enable_shared_from_this<State> {
  struct Piece {
    std::string name;
    nn::UnitImpl* unit = nullptr;
    size_t first = 0, last = 0;  // its parameters: [first, last)
    kernels::FlatLayout layout;
    int64_t own_begin = 0;  // of this rank's part in the flat buffers
    at::Tensor buffer;      // [layout.size()]; memory only while is_there
    // With outer parts: [shard_size], of the buffer's dtype, where the parts are.
    at::Tensor share;
    std::optional<at::ScalarType> dtype = {};  // of the buffer; none: that of the parts

    bool is_there = false;               // or on its way
    std::unique_ptr<Pending> gathering;  // on its way
    // With outer parts: of the share, on its way; what it becomes.
    std::unique_ptr<Pending> gathering_share;
    at::Tensor gathered_share;

    size_t num_missing = 0;                 // gradients that are not there yet
    std::optional<PartSum> reducing;        // among the shards
    std::unique_ptr<Pending> joining;       // the sum over the copies
    at::Tensor joined;                      // [part_size] of that
    std::optional<PartSum> reducing_outer;  // the same with outer parts
    at::Tensor kept;  // [shard_size], with outer parts: sums of the backwards before the last one
  };
  struct Place {
    size_t piece = 0;
    int64_t begin = 0;  // in the piece's buffer
  };

  State(Communicator& shard_ranks, Communicator& copy_ranks, const ShardOptions& shard_options)
      : shards(shard_ranks), copies(copy_ranks), options(shard_options) {}

  void add_piece(const ParamPiece& piece);
  void place_part(const Piece& piece, size_t i);
  void fill_piece(size_t k, const ParamValues& values);
  void make_buffers(const at::TensorOptions& of_value);
  void make_gradients();
  void take_in(const Piece& piece, size_t i, const at::Tensor& value);
  void take_share(Piece& piece);
  void hook_unit(size_t k);

  at::Tensor own_part(const Piece& piece, const at::Tensor& flat) const;
  at::Tensor own_values(const Piece& piece) const;
  void start_share(size_t k);
  void finish_share(size_t k);

  void start_gather(size_t k);
  void finish_gather(size_t k);
  void need(size_t k);
  void release(size_t k);
  void fetch_ahead(size_t k, const std::vector<std::optional<size_t>>& after);
  void before_unit(size_t k);
  void after_unit(size_t k, const at::Tensor& y);
  void before_unit_backward(size_t k);

  void choose_turns();
  void on_gradient(size_t i);
  void start_ready();
  void start_reduce(size_t k);
  void finish_reduce(size_t k);
  void keep_outer(Piece& piece, at::Tensor sum);
  void start_join(Piece& piece, const at::Tensor& sum);
  void start_outer(Piece& piece, at::Tensor sum);
  void finish_join(size_t k);
  void begin_backward(bool is_last_of_step);
  void finish_reductions();
  bool has_units() const;
  int64_t announce(int64_t what);
  void go_along();
  void end_accompanied();
  void join_late();
  bool has_gradients(const Piece& piece) const;
  at::Tensor direct_target(const Piece& piece, const at::Device& of_sum) const;
  at::Tensor add_gradients(const Piece& piece, const at::Tensor& sum);

  bool is_resident(size_t k) const { return pieces[k].unit == nullptr; }
  bool has_outer_parts() const { return options.outer != nullptr; }
  bool is_converted() const { return options.wire_dtype == at::kBFloat16; }
  at::ScalarType wire() const { return is_converted() ? options.wire_dtype : dtype; }
  at::Device home() const { return buffers.values.device(); }

  Communicator& shards;
  Communicator& copies;
  ShardOptions options;
  std::mutex mutex;  // hooks run in the threads of backward
  std::vector<Piece> pieces;
  std::vector<ShardedParam> params;
  std::vector<Place> places;           // by parameter
  at::ScalarType dtype = at::kFloat;   // of parts, and of sums of gradients
  kernels::FlatBuffers buffers;        // this rank's parts of all pieces
  std::vector<int64_t> part_sizes;     // by parameter
  std::vector<at::Tensor> grad_views;  // by parameter: where its part's gradient belongs
  int64_t whole_scopes = 0;
  bool has_left = false;  // the other ranks

  // Of forward: which piece followed which, for fetching ahead.
  std::vector<size_t> forward_order;
  std::optional<size_t> last_unit;
  std::vector<size_t>* inference_order = nullptr;  // where an InferenceScope wants to know it
  std::vector<std::optional<size_t>> next_of, previous_of;  // by piece

  // Of a pass, see Note [Passes that are announced].
  bool is_accompanied = false, is_announcing = false;

  // Of a backward.
  bool is_backward = false, is_reducing = false, is_last = false;
  std::vector<bool> has_gradient;  // by parameter
  std::vector<size_t> turns;       // pieces in the order in which they are reduced
  size_t next_turn = 0;
  std::deque<size_t> under_way;

  GradientHooks hooks;  // of all of `params`
};

}  // namespace fovea::parallel
