#include "fovea/train/step/pass_sums.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <set>

namespace fovea::train {
namespace {

// sum becomes sum + value in float64; undefined ones are 0.
void add_to(at::Tensor& sum, const at::Tensor& value) {
  const auto wide = value.detach().to(at::kDouble);
  sum = sum.defined() ? sum + wide : wide;
}

}  // namespace

void PassSums::add(const LossParts& loss, const at::Tensor& loss_sum, int64_t slot) {
  auto& sums = slots_[static_cast<size_t>(slot)];
  add_to(sums.loss, loss_sum);
  sums.weight += loss.weight;
  for (const auto& [name, sum] : loss.sums) add_to(sums.further[name], sum);
}

at::Tensor PassSums::numbers_of(const Sums& sums, const std::vector<std::string>& names,
                                c10::Device device) {
  const auto zero = [&] { return at::zeros({}, at::TensorOptions(device).dtype(at::kDouble)); };
  std::vector<at::Tensor> numbers = {sums.loss.defined() ? sums.loss : zero()};
  for (const auto& name : names) {
    const auto found = sums.further.find(name);
    numbers.push_back(found == sums.further.end() ? zero() : found->second);
  }
  return at::stack(numbers);
}

StepSums PassSums::take(const PassPlan& plan, c10::Device device) const {
  StepSums result{.names = {},
                  .numbers = {},
                  .is_empty = plan.of_slots.is_empty,
                  .has_empty_rank = plan.has_empty_rank(),
                  .device = device};
  std::set<std::string> names;
  for (const auto& sums : slots_) {
    for (const auto& [name, sum] : sums.further) names.insert(name);
    if (plan.has_slots()) result.slot_weights.push_back(sums.weight);
  }
  if (!plan.has_slots()) result.weight = slots_[0].weight;
  if (plan.own.empty()) return result;
  result.names.assign(names.begin(), names.end());
  std::vector<at::Tensor> rows;
  for (const auto& sums : slots_) rows.push_back(numbers_of(sums, result.names, device));
  result.numbers = plan.has_slots() ? at::stack(rows) : rows[0];
  return result;
}

}  // namespace fovea::train
