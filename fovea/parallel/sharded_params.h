// Parameters shared out over ranks: ZeRO 1 to 3 (Rajbhandari et al., "ZeRO: memory optimizations
// toward training trillion parameter models", SC 2020), whole only while they are needed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/kernels/flat_buffers.h"
#include "fovea/nn/unit.h"
#include "fovea/parallel/communicator.h"
#include "fovea/parallel/gradient_sync.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::parallel {

// Parameters that are gathered, freed and reduced together.
struct ParamPiece {
  std::string name;
  std::vector<std::pair<std::string, at::Tensor>>
      params;                    // by name; leaves that require a gradient
  nn::UnitImpl* unit = nullptr;  // that alone uses them; null: they are whole at all times
  std::optional<at::ScalarType> dtype = {};  // of what is gathered; none: that of the parameters
  bool is_of_block = false;                  // the unit is a block, or within one
};

struct PieceOptions {
  int64_t min_num_params = 0;               // 0: by blocks
  std::vector<GatheredUnit> units = {};     // outside of blocks
  int64_t least_params = int64_t{1} << 18;  // of one of them: fewer are not worth two collectives
};

// For ZeRO 3. A piece for each outermost unit of a list of blocks ("blocks.3"), and for each of
// `units` of least_params or more; or, with min_num_params, for each of `units`, and each innermost
// unit of a block, that has so many parameters beside those of pieces within it. The last piece, of
// no unit, has the rest, and parameters that several units share. Throws Error where the model has
// none of `units`.
std::vector<ParamPiece> pieces_by_unit(nn::UnitImpl& model, const PieceOptions& options = {});
// The matrices of blocks as pieces of their own, gathered in `dtype`; vectors, which are used in
// their own dtype, stay. The products of a block are to be in `dtype` then.
std::vector<ParamPiece> gathered_in(std::vector<ParamPiece> pieces, at::ScalarType dtype);
// For ZeRO 1 and 2: pieces of at least `bytes`, in the model's order, of no unit.
std::vector<ParamPiece> pieces_by_size(nn::UnitImpl& model, int64_t bytes = int64_t{25} << 20);

// One parameter and this rank's part of it.
struct ShardedParam {
  std::string name;
  at::Tensor whole;  // the model's leaf; without memory while its piece is not gathered
  std::vector<int64_t> shape;
  at::Tensor part;  // what an optimizer updates: a leaf of one dim: elements [first, first + numel)
                    // of the whole; a view of FlatBuffers::values
  int64_t first = 0;
  int64_t begin = 0;  // of the part in the flat buffers
};

// The value of a parameter by name, of the shape that the model's has, on the device that computes.
using ParamValues = std::function<at::Tensor(const std::string& name)>;

struct ShardOptions {
  // Gradients are reduced, and given up, after each backward; else after the last one of a step.
  bool reduce_every_backward = true;
  bool reshard_after_forward = true;
  // Parts, and with them gradients and what an optimizer has, are in the memory of the host; what
  // is gathered, on the device that computes.
  bool cpu_offload = false;
  // at::kBFloat16: gradients travel in it and are summed in float32. Else in their own dtype.
  at::ScalarType wire_dtype = at::kFloat;
  // Not null: the copies have no equal parts, but each a part of its own of the share that they
  // have in common; the ranks of all shards of all copies, copy by copy. See Note [Outer parts].
  Communicator* outer = nullptr;
};

// Note [Pieces]
// The parameters of a piece are views of one buffer, each aligned to 16 elements, of which the
// ranks have equal contiguous parts, so gathering needs no copy behind it and no rank has more than
// its share; a parameter may be cut anywhere. What a rank has of all pieces stands in flat buffers
// (FlatBuffers), piece after piece, in which an optimizer works: what a rank sends is a view of
// them, and sums of gradients arrive in them. Gathered weights are written below autograd, into
// memory that is taken and given back under the same tensors: what backward saved is still that
// tensor, at the same version, whatever was freed in between.
//
// A piece of a unit is gathered before the unit's forward, and again when the gradient of its
// output comes; the two that follow it (as in the forward before) are on their way by then. It is
// freed after forward, and when its last gradient is there. Gradients are reduce-scattered piece by
// piece while backward goes on, in one order on all ranks: that of the forward turned round, then
// the pieces of no unit from the last to the first. All ranks have to use units in one order; a
// parameter that one of them did not use has a gradient of zeros.
//
// Note [Outer parts]
// With ShardOptions::outer a rank's share of a piece, which it gathers from as above, is cut again:
// each copy has a part of it, which alone has a gradient and what an optimizer keeps. Gradients are
// reduce-scattered among the shards after every backward, as above, and added up there; after the
// last one of a step, among the copies. When the parts have changed, the copies gather their share
// from each other, once; the next forward then gathers among the shards alone. Of a piece that is
// whole at all times the share is a view of the buffer. With one shard this is ZeRO 1 over the
// copies.
class ShardedParams final : public GradientSync {
 public:
  // Takes the parameters out of the model and leaves this rank's parts; collective over `shards`,
  // the ranks that share out one copy. `copies`: the ranks that have the same share, over which
  // gradients are summed as well. Both outlive it. The model's forward needs it from now on.
  // values: for parameters on the meta device, which get their memory here, piece by piece: beside
  // its parts, a rank has one piece and one whole parameter at a time. Empty: they have values.
  ShardedParams(std::vector<ParamPiece> pieces, Communicator& shards, Communicator& copies,
                const ShardOptions& options = {}, const ParamValues& values = {});
  ~ShardedParams() override;
  ShardedParams(const ShardedParams&) = delete;
  ShardedParams& operator=(const ShardedParams&) = delete;

  // In the order of the pieces: the same on all ranks.
  const std::vector<ShardedParam>& params() const;
  // Of the parts, in that order. There is a copy where pieces are gathered in another dtype.
  const kernels::FlatBuffers& buffers() const;
  Communicator& shards() const;
  Communicator& copies() const;
  // The ranks that have different parts: those of shards(), with ShardOptions::outer of all copies.
  Communicator& owners() const;
  bool has_outer_parts() const;
  // What the ranks of copies() have alike, by name: parts, or the shares that these are of.
  std::vector<std::pair<std::string, at::Tensor>> shares() const;

  // Around every pass, and in place of one; see Note [Passes without samples].
  void begin_pass(bool is_accompanied) override;
  void end_pass() override;
  void idle_pass(IdlePass kind) override;

  // Around every backward, on all ranks alike or beside idle_pass. After the last one of a step the
  // parts' gradients are the sums over all ranks, added to what they were; a part without a
  // gradient gets one. Collective; throws RankError.
  void before_backward(bool is_last) override;
  void after_backward() override;
  void finish() override {}
  bool meets_in_passes() const override { return true; }

  // After the parts' values changed, and FlatBuffers::copy alike if has_copy: gathers what is
  // whole. Collective.
  void values_changed(bool has_copy = false);

  // From now on nothing is exchanged when values change: the other ranks are lost, and what is left
  // are this rank's parts.
  void leave_ranks();

  // While alive all parameters are whole. Making it is collective.
  class WholeScope {
   public:
    explicit WholeScope(ShardedParams* params);  // null: does nothing
    ~WholeScope();
    WholeScope(const WholeScope&) = delete;
    WholeScope& operator=(const WholeScope&) = delete;

   private:
    ShardedParams* params_;
  };

  // Note [Forwards that differ in number]
  // While alive, ranks may differ in how many forwards of the model they have, without gradients,
  // such as those of windows of volumes of different sizes. As in training, a piece is gathered
  // for its unit and freed behind it, which all ranks have to take part in: before each forward
  // they tell each other whether anybody has one, and a rank that has none left goes along, in
  // finish(), with the gathers of those that have. With reshard_after_forward off, all parameters
  // are whole instead, as in a WholeScope. Making it is collective over shards().
  class InferenceScope {
   public:
    // params: null: does nothing. The model's forwards run on this thread.
    InferenceScope(ShardedParams* params, nn::UnitImpl& model);
    ~InferenceScope();
    InferenceScope(const InferenceScope&) = delete;
    InferenceScope& operator=(const InferenceScope&) = delete;

    // Until no rank has a forward left; then pieces are freed. May be called again. Collective:
    // before any other collective of ranks whose forwards differ in number, and at the end.
    void finish();

   private:
    bool anyone_has_a_forward(bool is_own);

    ShardedParams* params_;  // null: nothing to gather
    nn::UnitImpl& model_;
    std::unique_ptr<WholeScope> whole_;
    std::vector<size_t> order_;  // of the pieces, in a forward
  };

  int64_t num_pieces() const;
  int64_t piece_bytes(int64_t piece) const;  // of its gathered buffer

 private:
  struct State;
  std::shared_ptr<State> state_;  // callbacks of units look whether it is still there
};

}  // namespace fovea::parallel
