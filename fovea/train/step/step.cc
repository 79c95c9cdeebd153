#include "fovea/train/step/step.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/core/trace.h"
#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/parallel/half_sums.h"
#include "fovea/parallel/rank_error.h"
#include "fovea/train/step/clipping.h"
#include "fovea/train/step/passes.h"
#include "fovea/train/step/step_sums.h"

namespace fovea::train {
namespace {

void reach(const StepOptions& options, StepStage stage) {
  if (options.progress) options.progress->stage = stage;
}

// Ranks of one part of the batch hear of each other's requests.
void share_requests(StepNotes& notes, const StepOptions& options) {
  if (!options.model_parallel || !options.model_parallel->is_on()) return;
  for (auto* told : {&notes.stop_requests, &notes.changes}) {
    *told = std::llround(options.model_parallel->max_over_ranks(static_cast<double>(*told)));
  }
}

bool is_finite(const StepOutcome& outcome) {
  return std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm);
}

void take_outcome(StepOutcome& outcome, optim::GradScaler& scaler) {
  outcome.is_skipped = !is_finite(outcome);
  scaler.update(!outcome.is_skipped);
  scaler.expect_weight(outcome.weight);
  outcome.loss_scale = scaler.scale();
}

void check_finite(const StepOutcome& outcome, const PreparedStep& prepared,
                  const optim::GradScaler* scaler) {
  if (is_finite(outcome)) return;
  if (scaler && !scaler->is_below_limit()) return;
  fail<DivergedError>(
      "step {}: loss {} and gradient norm {} are not both finite; expected finite numbers. The "
      "samples of the batch start at position {}. {}",
      prepared.step, outcome.loss, outcome.grad_norm, prepared.position,
      scaler ? fmt::format("The loss scale has fallen to {}, below trainer.grad_scaler.min_scale, "
                           "so that no scale helps: set device.dtype=bfloat16, lower optim.lr, or "
                           "lengthen the warm-up",
                           scaler->scale())
             : "Lower optim.lr, lengthen the warm-up, or set trainer.max_grad_norm");
}

}  // namespace

StepInput input_of(data::Batch& batch, const StepParts& parts) {
  return {.size = batch.size(),
          .position = batch.position,
          .share = batch.share,
          .global_size = batch.global_size,
          .tensors = [&batch, compute = parts.options.compute,
                      images = images_for(parts.model, parts.task)](int64_t begin, int64_t end) {
            return to_tensors(batch, begin, end, compute, images);
          }};
}

PreparedStep prepare_step(const StepParts& parts, const StepInput& batch, int64_t step,
                          Numbers numbers, const at::Tensor& clip_before) {
  const auto& options = parts.options;
  if (options.progress) *options.progress = {.stage = StepStage::kBegun, .step = step};
  PreparedStep prepared{.step = step,
                        .position = batch.position,
                        .sums = run_passes(parts, batch, step),
                        .notes = {},
                        .clip = {}};
  const bool is_done = parts.optimizer.flat_grad().is_cpu();  // a device may have all of it to do
  if (is_done) reach(options, StepStage::kSummed);
  if (options.notes) prepared.notes = options.notes();
  auto& ranks = options.ranks ? *options.ranks : parallel::one_rank();
  numbers == Numbers::kLate ? sum_late(prepared, ranks) : sum_at_once(prepared, ranks);
  share_requests(prepared.notes, options);
  const double weight = prepared.sums.weight;
  FOVEA_CHECK(weight > 0,
              "step {}: the weights of the batch's losses sum to {}; expected more than 0", step,
              weight);
  prepared.clip = clip_of_step(parts, 1.0 / factor_of_sums(options) / weight,
                               prepared.sums.numbers[0], clip_before);
  if (options.progress) options.progress->prepared = prepared;
  if (is_done) reach(options, StepStage::kPrepared);
  return prepared;
}

PreparedStep prepare_step(const StepParts& parts, data::Batch& batch, int64_t step) {
  return prepare_step(parts, input_of(batch, parts), step);
}

namespace {

std::optional<elastic::GradientHalves> halves_of(const StepSums& sums) {
  if (!sums.halves.defined()) return {};
  const auto of_all = parallel::add_tiles(sums.halves.cpu());
  const auto* const number = of_all.const_data_ptr<double>();
  return elastic::GradientHalves{.first_square = number[0],
                                 .second_square = number[1],
                                 .product = number[2],
                                 .first_weight = sums.first_weight,
                                 .second_weight = sums.weight - sums.first_weight};
}

StepOutcome numbers_of(const PreparedStep& prepared) {
  const auto& sums = prepared.sums;
  const auto numbers = sums.numbers.cpu();
  StepOutcome outcome;
  outcome.weight = sums.weight;
  outcome.loss = numbers[0].item<double>() / sums.weight;
  for (size_t i = 0; i < sums.names.size(); ++i) {
    outcome.sums[sums.names[i]] = numbers[static_cast<int64_t>(i) + 1].item<double>();
  }
  outcome.grad_norm = prepared.clip[kernels::kClipNorm].item<double>();
  outcome.notes = prepared.notes;
  outcome.halves = halves_of(sums);
  return outcome;
}

}  // namespace

StepOutcome outcome_of(const PreparedStep& prepared, const StepOptions& options) {
  auto outcome = numbers_of(prepared);
  if (options.check_ranks) options.check_ranks();
  if (options.scaler) take_outcome(outcome, *options.scaler);
  if (options.progress && options.progress->step == prepared.step) {
    options.progress->stage = std::max(options.progress->stage, StepStage::kPrepared);
    options.progress->has_outcome = true;
  }
  check_finite(outcome, prepared, options.scaler);
  return outcome;
}

void apply_step(const StepParts& parts, const PreparedStep& prepared, double lr) {
  const trace::Scope update("optimizer");
  optim::StepExtras extras{.clip = prepared.clip};
  if (parts.ema) parts.ema->join(prepared.step, extras);
  reach(parts.options, StepStage::kApplying);
  try {
    parts.optimizer.step(lr, extras);
  } catch (const parallel::RankError&) {
    // The update was over; what broke off was the exchange of new values.
    if (parts.optimizer.updates_elements_alone()) reach(parts.options, StepStage::kApplied);
    throw;
  }
  reach(parts.options, StepStage::kApplied);
}

void leave_out_step(const StepParts& parts) { reach(parts.options, StepStage::kApplied); }

bool can_finish_alone(const StepParts& parts) {
  const bool is_whole = !parts.optimizer.sum_over_parts();
  return is_whole || (clips_in_one_pass(parts) && parts.optimizer.updates_elements_alone());
}

StepOutcome finish_step(const StepParts& parts, const PreparedStep& prepared, double lr) {
  const auto& options = parts.options;
  FOVEA_CHECK(options.progress && options.progress->step == prepared.step,
              "step {} is finished, and was not begun here", prepared.step);
  auto& progress = *options.progress;
  if (progress.stage == StepStage::kSummed) {
    auto own = prepared;
    // Gradients of parts were clipped by a norm that all have; whole ones are each rank's to clip.
    if (!parts.optimizer.sum_over_parts()) {
      own.clip = clip_of_step(parts, 1.0 / factor_of_sums(options) / prepared.sums.weight,
                              prepared.sums.numbers[0], {});
    }
    progress.prepared = own;
    progress.stage = StepStage::kPrepared;
  }
  FOVEA_CHECK(progress.stage == StepStage::kPrepared, "step {} cannot be finished from here",
              prepared.step);
  StepOptions alone = options;
  alone.check_ranks = {};  // others are lost; the numbers were there before
  auto outcome = progress.has_outcome ? numbers_of(progress.prepared)  // the scaler knows them
                                      : outcome_of(progress.prepared, alone);
  if (options.scaler) outcome.is_skipped = !is_finite(outcome);
  outcome.is_skipped ? leave_out_step(parts) : apply_step(parts, progress.prepared, lr);
  return outcome;
}

bool can_be_late(const StepParts& parts) {
  return !parts.options.scaler && clips_in_one_pass(parts);
}

}  // namespace fovea::train
