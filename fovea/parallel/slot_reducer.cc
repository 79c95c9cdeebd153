// N numbers of a gradient, W ranks.
#include "fovea/parallel/slot_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/parallel/half_sums.h"

namespace fovea::parallel {

SlotReducer::SlotReducer(const at::Tensor& flat_grad, Communicator& ranks)
    : flat_grad_(flat_grad),
      ranks_(ranks),
      part_size_((flat_grad.numel() + ranks.size() - 1) / ranks.size()) {}

void SlotReducer::measure_halves() {
  measures_halves_ = true;
  if (ranks_.size() > 1) part_size_ = num_half_tiles(part_size_) * kHalfTile;
  buffers_.clear();
  received_.clear();
}

void SlotReducer::begin_slots(const SlotPlan& plan) {
  FOVEA_CHECK(static_cast<int64_t>(plan.of_ranks.size()) == ranks_.size(),
              "slots of {} ranks among {}", plan.of_ranks.size(), ranks_.size());
  for (auto& node : nodes_) give_buffer(node.sum);  // of a step that broke off
  nodes_.clear();
  if (measures_halves_) {
    halves_ =
        at::zeros({num_half_tiles(flat_grad_.numel()), 3}, flat_grad_.options().dtype(at::kDouble));
  }
  plan_ = plan;
  own_ = plan_.of_ranks[static_cast<size_t>(ranks_.rank())];
}

// What fills it up stays zero.
at::Tensor SlotReducer::take_buffer() {
  if (buffers_.empty()) return at::zeros({ranks_.size() * part_size_}, flat_grad_.options());
  auto buffer = std::move(buffers_.back());
  buffers_.pop_back();
  return buffer;
}

void SlotReducer::give_buffer(const at::Tensor& buffer) {
  if (buffer.defined() && !buffer.is_alias_of(flat_grad_)) buffers_.push_back(buffer);
}

// With the node before it to one that is this rank's as a whole.
bool SlotReducer::is_mergeable(const Node& node) const {
  const auto family = family_of(plan_.slots(), node.range);
  return family && own_.has(family->parent) && family->sibling.last == node.range.first;
}

// node: as yet in flat_grad, in a buffer, or empty. stays_in_flat: its sum is not to leave
// flat_grad, where it is; else it goes to the buffer of the other one.
void SlotReducer::merge(Node& node, bool stays_in_flat) {
  Node left = std::move(nodes_.back());
  nodes_.pop_back();
  node.range.first = left.range.first;
  if (!left.sum.defined()) return;
  if (!node.sum.defined()) {
    node.sum = left.sum;
    return;
  }
  if (node.range == SlotRange{0, plan_.slots()}) {
    measure(in_buffer(left.sum), in_buffer(node.sum), 0);
  }
  const bool is_in_flat = node.sum.is_alias_of(flat_grad_);
  if (stays_in_flat && is_in_flat) {
    flat_grad_.add_(in_buffer(left.sum));
    give_buffer(left.sum);
    return;
  }
  in_buffer(left.sum).add_(in_buffer(node.sum));
  give_buffer(node.sum);
  node.sum = left.sum;
}

void SlotReducer::keep(Node node, bool stays_in_flat) {
  if (node.sum.defined() && node.sum.is_alias_of(flat_grad_) && !stays_in_flat) {
    node.sum = take_buffer();
    in_buffer(node.sum).copy_(flat_grad_);
  }
  nodes_.push_back(std::move(node));
}

void SlotReducer::end_slot(int64_t slot) {
  const at::NoGradGuard no_grad;
  const bool is_empty = plan_.is_empty[static_cast<size_t>(slot)];
  Node node{.range = {slot, slot + 1}, .sum = is_empty ? at::Tensor() : flat_grad_};
  // Nothing is computed behind the last one: what it comes to may stay where it is.
  const bool stays_in_flat = is_last_own(slot) && fits_ranks();
  while (is_mergeable(node)) merge(node, stays_in_flat);
  keep(std::move(node), stays_in_flat);
  if (!is_empty && !is_last_own(slot)) flat_grad_.zero_();
}

// -> by number of the node in its rank: [W * part], of each rank its node's part of this one.
std::vector<at::Tensor> SlotReducer::exchange_nodes() {
  size_t most = 0;
  for (const auto& range : plan_.of_ranks) {
    most = std::max(most, whole_nodes(plan_.slots(), range).size());
  }
  std::vector<std::unique_ptr<Pending>> pending;
  std::vector<at::Tensor> sent;
  for (size_t k = 0; k < most; ++k) {
    const bool has_node = k < nodes_.size() && nodes_[k].sum.defined();
    sent.push_back(has_node ? nodes_[k].sum : take_buffer());  // of no node: nobody looks at it
    if (received_.size() == k) received_.push_back(at::zeros_like(sent[k]));
    pending.push_back(ranks_.start_all_to_all(received_[k], sent[k], "sums of slots"));
  }
  for (const auto& each : pending) each->wait();
  for (const auto& each : sent) give_buffer(each);
  return received_;
}

void SlotReducer::measure(const at::Tensor& left, const at::Tensor& right, int64_t first) const {
  const int64_t size = std::min(left.numel(), flat_grad_.numel() - first);
  if (!measures_halves_ || size <= 0) return;
  const auto sums = half_sums(left.narrow(0, 0, size), right.narrow(0, 0, size));
  halves_.narrow(0, first / kHalfTile, sums.size(0)).copy_(sums);
}

at::Tensor SlotReducer::sum_of_part(const std::vector<at::Tensor>& received) const {
  const auto is_empty = [&](const SlotRange& node) {
    const auto begin = plan_.is_empty.begin();
    return std::all_of(begin + node.first, begin + node.last, [](bool empty) { return empty; });
  };
  const auto value = [&](const SlotRange& node) -> std::optional<at::Tensor> {
    if (is_empty(node)) return at::Tensor();
    for (size_t rank = 0; rank < plan_.of_ranks.size(); ++rank) {
      if (!plan_.of_ranks[rank].has(node)) continue;
      const auto nodes = whole_nodes(plan_.slots(), plan_.of_ranks[rank]);
      const auto k = std::find(nodes.begin(), nodes.end(), node) - nodes.begin();
      FOVEA_CHECK(k < std::ssize(nodes), "a node of slots [{}, {}) is not on its way", node.first,
                  node.last);
      return received[static_cast<size_t>(k)].narrow(0, static_cast<int64_t>(rank) * part_size_,
                                                     part_size_);
    }
    return std::nullopt;
  };
  return sum_of_slots(plan_.slots(), value, [&](const at::Tensor& left, const at::Tensor& right) {
    measure(left, right, ranks_.rank() * part_size_);
  });
}

// Of one rank.
void SlotReducer::take_only_node() {
  const auto& sum = nodes_.front().sum;
  if (!sum.defined()) {
    flat_grad_.zero_();
  } else if (!sum.is_alias_of(flat_grad_)) {  // the last slots are empty
    flat_grad_.copy_(in_buffer(sum));
  }
  give_buffer(sum);
}

void SlotReducer::finish() {
  const at::NoGradGuard no_grad;
  FOVEA_CHECK(!nodes_.empty() && nodes_.back().range.last == own_.last,
              "slots [{}, {}) are not all there", own_.first, own_.last);
  if (ranks_.size() == 1) {
    take_only_node();
    nodes_.clear();
    return;
  }
  const auto received = exchange_nodes();
  nodes_.clear();
  auto part = sum_of_part(received);
  if (!part.defined()) part = received[0].narrow(0, 0, part_size_).zero_();
  if (fits_ranks()) {
    ranks_.all_gather(flat_grad_, part, "sums over the slots");
    return;
  }
  const auto whole = take_buffer();
  ranks_.all_gather(whole, part, "sums over the slots");
  flat_grad_.copy_(in_buffer(whole));
  whole.narrow(0, flat_grad_.numel(), whole.numel() - flat_grad_.numel()).zero_();
  give_buffer(whole);
}

}  // namespace fovea::parallel
