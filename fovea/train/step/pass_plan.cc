#include "fovea/train/step/pass_plan.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/train/step/pass_size.h"

namespace fovea::train {
namespace {

using data::BatchShare;

// Samples [begin, end) in passes of `size`, or in one.
void cut(int64_t begin, int64_t end, int64_t size, int64_t slot, std::vector<Pass>& passes) {
  for (int64_t first = begin; first < end;) {
    const int64_t last = size > 0 ? std::min(end, first + size) : end;
    passes.push_back({first, last, slot});
    first = last;
  }
}

// Of a share, counted from its first sample.
std::vector<Pass> passes_of(const BatchShare& share, int64_t rows, int64_t size, bool has_slots) {
  std::vector<Pass> passes;
  if (!has_slots) {
    cut(0, share.rows(rows), size, 0, passes);
    return passes;
  }
  const int64_t begin = share.begin(rows);
  for (int64_t slot = share.first; slot < share.last; ++slot) {
    const BatchShare of_slot{slot, slot + 1, share.of};
    cut(of_slot.begin(rows) - begin, of_slot.end(rows) - begin, size, slot, passes);
  }
  return passes;
}

// By rank; one alone where a batch is not known to be shared out.
std::vector<BatchShare> shares_of(const StepInput& batch, const StepOptions& options) {
  const int64_t ranks = options.ranks ? options.ranks->size() : 1;
  if (ranks == 1 || batch.global_size == 0) return {batch.share};
  auto shares = options.shares;
  for (int64_t rank = 0; options.shares.empty() && rank < ranks; ++rank) {
    shares.push_back(BatchShare::of_rank(rank, ranks, options.slots));
  }
  const auto own = static_cast<size_t>(options.ranks->rank());
  FOVEA_CHECK(std::ssize(shares) == ranks && shares[own] == batch.share,
              "a rank has parts {} to {} of {} of a batch; expected its share among {} ranks",
              batch.share.first, batch.share.last, batch.share.of, ranks);
  return shares;
}

parallel::SlotPlan slot_plan(const std::vector<BatchShare>& shares, int64_t slots, int64_t rows) {
  parallel::SlotPlan plan;
  for (const auto& share : shares) plan.of_ranks.push_back({share.first, share.last});
  for (int64_t slot = 0; slot < slots; ++slot) {
    plan.is_empty.push_back(BatchShare{slot, slot + 1, slots}.rows(rows) == 0);
  }
  return plan;
}

}  // namespace

int64_t global_size_of(const StepInput& batch) {
  return batch.global_size > 0 ? batch.global_size : batch.size;
}

PassPlan plan_passes(const StepInput& batch, const StepOptions& options) {
  const auto chosen = options.passes ? options.passes->size() : options.micro_batch_size;
  const int64_t rows = global_size_of(batch);
  const bool has_slots = options.slots > 0;
  PassPlan plan;
  const bool is_shared = options.ranks && options.ranks->size() > 1 && batch.global_size > 0;
  if (!has_slots && !is_shared) {  // whatever rows it has
    cut(0, batch.size, chosen, 0, plan.own);
    plan.most = plan.least = std::ssize(plan.own);
    return plan;
  }
  auto own = batch.share;
  // One process with a batch that no loader made.
  if (has_slots && batch.global_size == 0) own = {0, options.slots, options.slots};
  FOVEA_CHECK(own.rows(rows) == batch.size && (!has_slots || own.of == options.slots),
              "{} samples of a batch of {}; expected parts {} to {} of {}", batch.size, rows,
              own.first, own.last, has_slots ? options.slots : own.of);
  auto shares = shares_of(batch, options);
  if (shares.size() == 1) shares = {own};
  plan.own = passes_of(own, rows, chosen, has_slots);
  plan.most = plan.least = std::ssize(plan.own);
  for (const auto& share : shares) {
    const auto count = std::ssize(passes_of(share, rows, chosen, has_slots));
    plan.most = std::max<int64_t>(plan.most, count);
    plan.least = std::min<int64_t>(plan.least, count);
  }
  if (!has_slots) return plan;
  plan.slots = {own.first, own.last};
  plan.of_slots = slot_plan(shares, options.slots, rows);
  return plan;
}

int64_t size_of_pass(const StepInput& batch, const StepOptions& options) {
  const auto chosen = options.passes ? options.passes->size() : options.micro_batch_size;
  if (options.slots == 0) return chosen > 0 ? chosen : std::max<int64_t>(1, batch.size);
  int64_t largest = 1;
  for (const auto& pass : plan_passes(batch, options).own) {
    largest = std::max(largest, pass.end - pass.begin);
  }
  return largest;
}

}  // namespace fovea::train
