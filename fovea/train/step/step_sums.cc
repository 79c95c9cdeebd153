// V slots, C numbers of each: the loss and further sums.
#include "fovea/train/step/step_sums.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <memory>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/parallel/half_sums.h"
#include "fovea/parallel/slot_tree.h"

namespace fovea::train {
namespace {

// A rank without samples has no loss that could tell it which sums there are.
void settle_names(StepSums& sums, parallel::Communicator& ranks) {
  if (!sums.has_empty_rank || ranks.size() == 1) return;
  const bool has_names = sums.numbers.defined();
  const auto own = has_names ? fmt::format(".{}", fmt::join(sums.names, "\n")) : std::string();
  for (const auto& text : parallel::all_gather_text(ranks, own, "names of the sums")) {
    if (has_names || text.empty()) continue;
    std::istringstream names(text.substr(1));
    for (std::string name; std::getline(names, name);) sums.names.push_back(name);
    break;
  }
  if (has_names) return;
  const auto count = static_cast<int64_t>(1 + sums.names.size());
  auto shape = std::vector<int64_t>{count};
  if (sums.has_slots()) shape.insert(shape.begin(), std::ssize(sums.slot_weights));
  sums.numbers = at::zeros(shape, at::TensorOptions(sums.device).dtype(at::kDouble));
}

// [V] or [1]
at::Tensor weights_of(const StepSums& sums) {
  return sums.has_slots() ? at::tensor(sums.slot_weights, at::kDouble)
                          : at::full({1}, sums.weight, at::kDouble);
}

// weights: [V] or [1], of all ranks.
void take_weights(StepSums& sums, const at::Tensor& weights) {
  sums.first_weight = 0;
  for (int64_t slot = 0; sums.has_slots() && slot < weights.numel() / 2; ++slot) {
    sums.first_weight += weights[slot].item<double>();
  }
  sums.weight = (sums.has_slots() ? parallel::sum_of_slot_rows(weights, sums.is_empty) : weights)
                    .item<double>();
}

// numbers: [V, C] or [C], of all ranks.
void take_numbers(StepSums& sums, const at::Tensor& numbers) {
  sums.numbers =
      sums.has_slots() ? parallel::sum_of_slot_rows(numbers, sums.is_empty) : numbers;  // [C]
}

void append(std::vector<double>& all, const at::Tensor& numbers) {
  const auto flat = numbers.cpu().contiguous();
  const auto* const begin = flat.const_data_ptr<double>();
  all.insert(all.end(), begin, begin + flat.numel());
}

constexpr int64_t kNumNotes = 3;

std::array<double, kNumNotes> numbers_of(const StepNotes& notes) {
  return {static_cast<double>(notes.stop_requests), static_cast<double>(notes.bad_samples),
          static_cast<double>(notes.changes)};
}

StepNotes notes_of(const at::Tensor& numbers) {
  return {.stop_requests = std::llround(numbers[0].item<double>()),
          .bad_samples = std::llround(numbers[1].item<double>()),
          .changes = std::llround(numbers[2].item<double>())};
}

}  // namespace

void sum_at_once(PreparedStep& prepared, parallel::Communicator& ranks) {
  auto& sums = prepared.sums;
  settle_names(sums, ranks);
  if (!sums.numbers.defined()) sums.numbers = at::zeros({1}, at::kDouble);  // a batch of no samples
  const auto rows = sums.numbers.cpu();
  const auto weights = sums.has_slots() ? sums.slot_weights : std::vector<double>{sums.weight};
  std::vector<double> all;
  append(all, rows);
  all.insert(all.end(), weights.begin(), weights.end());
  const auto notes = numbers_of(prepared.notes);
  all.insert(all.end(), notes.begin(), notes.end());
  if (sums.halves.defined()) append(all, sums.halves);  // of each tile one rank has the numbers
  parallel::sum_over_ranks(ranks, all, "losses");
  const auto summed = at::tensor(all, at::kDouble);
  take_numbers(sums, summed.narrow(0, 0, rows.numel()).view(rows.sizes()));
  take_weights(sums, summed.narrow(0, rows.numel(), std::ssize(weights)));
  const auto behind = rows.numel() + std::ssize(weights);
  prepared.notes = notes_of(summed.narrow(0, behind, kNumNotes));
  if (!sums.halves.defined()) return;
  const auto tiles = summed.narrow(0, behind + kNumNotes, sums.halves.numel());
  sums.halves = parallel::add_tiles(tiles.view({-1, 3})).unsqueeze(0);  // [1, 3]
}

void sum_late(PreparedStep& prepared, parallel::Communicator& ranks) {
  auto& sums = prepared.sums;
  settle_names(sums, ranks);
  FOVEA_CHECK(sums.numbers.defined(), "step {}: a batch without samples", prepared.step);
  if (ranks.size() == 1) {
    if (!sums.has_slots()) return;
    take_numbers(sums, sums.numbers);
    return take_weights(sums, weights_of(sums));
  }
  const auto losses = ranks.start_all_reduce(sums.numbers, "losses");
  std::unique_ptr<parallel::Pending> halves;
  if (sums.halves.defined()) {
    halves = ranks.start_all_reduce(sums.halves, "halves of the gradients");
  }
  const auto weights = weights_of(sums);
  const auto notes = numbers_of(prepared.notes);
  const auto known = at::cat({weights, at::tensor(notes, at::kDouble)});
  ranks.all_reduce(known, "weights of the losses");
  take_weights(sums, known.narrow(0, 0, weights.numel()));
  prepared.notes = notes_of(known.narrow(0, weights.numel(), kNumNotes));
  losses->wait();
  if (halves) halves->wait();
  take_numbers(sums, sums.numbers);
}

}  // namespace fovea::train
