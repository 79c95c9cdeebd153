// Data parallel with slots: the gradients of the slots of a batch, added in one order whoever
// computes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/parallel/communicator.h"
#include "fovea/parallel/gradient_sync.h"

namespace fovea::parallel {

// Note [Partial sums that travel]
// The gradient of each slot is computed by itself, from zero, and added to those before it as the
// tree over slots has it (Note [One tree over slots]); a rank comes to the largest nodes that lie
// in its slots. They are cut into as many parts as there are ranks; each rank gets its part of all
// nodes, adds them up to the root, and the ranks gather that from each other. So a sum has the same
// bits on any number of ranks, of which one exchanges nothing.
class SlotReducer final : public GradientSync {
 public:
  // flat_grad: [N], of which the gradients of the parameters are views. `ranks` outlives it.
  SlotReducer(const at::Tensor& flat_grad, Communicator& ranks);

  // From the next step on. Parts of ranks are whole tiles then.
  void measure_halves();
  bool measures_halves() const override { return measures_halves_; }
  at::Tensor halves() const override { return halves_; }

  void begin_slots(const SlotPlan& plan) override;
  void end_slot(int64_t slot) override;
  void before_backward(bool /*is_last*/) override {}
  void after_backward() override {}
  void finish() override;  // `flat_grad` is then the sum
  bool meets_in_passes() const override { return false; }

 private:
  struct Node {
    SlotRange range;
    at::Tensor sum;  // [N] with what fills it up to whole parts; undefined: it is empty
  };

  bool is_last_own(int64_t slot) const { return slot + 1 == own_.last; }
  bool is_mergeable(const Node& node) const;
  void merge(Node& node, bool stays_in_flat);
  void keep(Node node, bool stays_in_flat);
  bool fits_ranks() const { return part_size_ * ranks_.size() == flat_grad_.numel(); }
  at::Tensor take_buffer();
  void give_buffer(const at::Tensor& buffer);
  at::Tensor in_buffer(const at::Tensor& sum) const { return sum.narrow(0, 0, flat_grad_.numel()); }
  std::vector<at::Tensor> exchange_nodes();
  at::Tensor sum_of_part(const std::vector<at::Tensor>& received) const;
  // Of what begins at element `first` of the flat gradient, before the two are added to its root.
  void measure(const at::Tensor& left, const at::Tensor& right, int64_t first) const;
  void take_only_node();

  at::Tensor flat_grad_;
  Communicator& ranks_;
  int64_t part_size_;  // of a rank, in elements
  bool measures_halves_ = false;
  at::Tensor halves_;  // [T, 3], of this step
  SlotPlan plan_;
  SlotRange own_;
  std::vector<Node> nodes_;           // done, in the order of the slots
  std::vector<at::Tensor> buffers_;   // that nothing uses
  std::vector<at::Tensor> received_;  // [ranks * part], by number of the node
};

}  // namespace fovea::parallel
