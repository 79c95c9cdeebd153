// How gradients of ranks become their sums, told by whoever runs the backward passes of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "fovea/parallel/model_parallel.h"
#include "fovea/parallel/slot_tree.h"

namespace fovea::parallel {

// Who has which slots of a batch; see Note [One tree over slots].
struct SlotPlan {
  std::vector<SlotRange> of_ranks;  // one behind the other, from the first slot to the last
  std::vector<bool> is_empty;       // by slot

  int64_t slots() const { return static_cast<int64_t>(is_empty.size()); }
};

// What a rank without samples goes along with.
enum class IdlePass { kForward, kBackward, kLastBackward };  // kBackward: and the forward before it

// Note [Passes without samples]
// Ranks may differ in their passes of a step, and one may have none. Where ranks meet in a pass,
// one that has fewer goes along in `idle_pass`, without computing: it takes part in the gathers of
// forward and backward, and adds zeros to the sums. Idle passes come before a rank's own ones, so
// that its last pass is the others' last one too. All ranks know which passes are accompanied by
// such a rank.

// Data parallel is GradientReducer (ddp.h), with slots SlotReducer (slot_reducer.h), or
// ShardedParams (sharded_params.h) where parameters are shared out; a model whose layers are, has a
// SumOverModel about it.
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  // With slots: at a step's start, and behind the passes of each slot that this rank has, also of
  // empty ones, in their order.
  virtual void begin_slots(const SlotPlan& /*plan*/) {}
  virtual void end_slot(int64_t /*slot*/) {}

  // Whether it tells, after a step with slots, what the two halves of them have to do with each
  // other; see Note [Halves of a gradient].
  virtual bool measures_halves() const { return false; }
  // Of the last step: [T, 3], zeros where other ranks have the tile.
  virtual at::Tensor halves() const { return {}; }

  // Around every pass, that is a forward with its backward or a forward alone; see Note [Passes
  // without samples]. Collective, with idle_pass, where ranks meet in passes.
  virtual void begin_pass(bool /*is_accompanied*/) {}
  virtual void end_pass() {}
  virtual void idle_pass(IdlePass /*kind*/) {}

  // Around every backward; is_last: of the step.
  virtual void before_backward(bool is_last) = 0;
  virtual void after_backward() = 0;
  // After the last backward of a step, also on a rank that ran none: gradients are the sums over
  // the ranks then. Collective. Throws RankError.
  virtual void finish() = 0;

  // Whether ranks wait for each other within a forward or a backward, so that none can run one
  // anew by itself.
  virtual bool meets_in_passes() const = 0;
};

// The sums over tp and cp after those of data parallel.
class SumOverModel final : public GradientSync {
 public:
  // leaves: see ModelParallel::sum_gradients. The others outlive this.
  SumOverModel(GradientSync& of_data, const ModelParallel& model_parallel,
               std::vector<std::pair<std::string, at::Tensor>> leaves)
      : of_data_(of_data), model_parallel_(model_parallel), leaves_(std::move(leaves)) {}

  void begin_slots(const SlotPlan& plan) override { of_data_.begin_slots(plan); }
  void end_slot(int64_t slot) override { of_data_.end_slot(slot); }
  // measures_halves: no, for what of_data_ adds up is of parts of layers or of tokens.
  void begin_pass(bool is_accompanied) override { of_data_.begin_pass(is_accompanied); }
  void end_pass() override { of_data_.end_pass(); }
  void idle_pass(IdlePass kind) override { of_data_.idle_pass(kind); }
  void before_backward(bool is_last) override { of_data_.before_backward(is_last); }
  void after_backward() override { of_data_.after_backward(); }
  void finish() override {
    of_data_.finish();
    model_parallel_.sum_gradients(leaves_);
  }
  bool meets_in_passes() const override { return true; }

 private:
  GradientSync& of_data_;
  const ModelParallel& model_parallel_;
  std::vector<std::pair<std::string, at::Tensor>> leaves_;
};

}  // namespace fovea::parallel
