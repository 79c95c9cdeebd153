// One optimizer step in two halves. prepare_step changes no weight and has all that ranks exchange:
// after it each knows that the others have come as far. apply_step is the update.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/batch.h"
#include "fovea/elastic/solve/adaptive_batch.h"
#include "fovea/models/model.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/grad_scaler.h"
#include "fovea/optim/optimizer.h"
#include "fovea/parallel/communicator.h"
#include "fovea/parallel/gradient_sync.h"
#include "fovea/parallel/model_parallel.h"
#include "fovea/train/evaluate/features.h"
#include "fovea/train/step/fp8_layers.h"
#include "fovea/train/tasks/task.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

// What ranks tell each other with the sums of a step; outcomes have the sum over them.
struct StepNotes {
  int64_t stop_requests = 0;  // ranks that were told to stop
  int64_t bad_samples = 0;    // met since the last time they were shared
  int64_t changes = 0;        // ranks that know that the members change before the next step
};

// When the host learns a step's numbers.
enum class Numbers {
  kAtOnce,  // before prepare_step returns
  // When it asks for them, so that it need not wait for a GPU in between.
  kLate,
};

class ConcurrentPasses;
class PassSize;
struct StepProgress;

struct StepOptions {
  uint64_t seed = 42;
  int64_t micro_batch_size = 0;  // 0: the whole batch in one pass
  // In place of micro_batch_size, a size that is halved where memory runs out; the step is then
  // taken anew. null: that memory runs out is an error.
  PassSize* passes = nullptr;
  // Several passes at the same time: the same bits (pass_workers.h). Not with FP8 or features, nor
  // where ranks meet in passes. null: one after another.
  ConcurrentPasses* concurrent = nullptr;
  double max_grad_norm = 0;  // 0: no clipping
  double max_grad_value = 0;
  double max_grad_ratio = 0;  // of each unit to its weights, but for the classifier's; 0: off
  ComputeOptions compute = {};
  FeatureSource* features = nullptr;  // of a frozen backbone; null: the model runs as a whole
  // The ranks that each have a part of the batch, and what sums their gradients.
  parallel::Communicator* ranks = nullptr;  // null: this process has the whole batch
  parallel::GradientSync* sync = nullptr;   // null: gradients are those of this process
  int64_t slots = 0;                        // of each batch, see Note [Slots]; 0: there are none
  // By rank; empty: those of BatchShare::of_rank.
  std::vector<data::BatchShare> shares = {};
  // Whose ranks hear of each other's requests to stop; null: layers are whole.
  const parallel::ModelParallel* model_parallel = nullptr;
  // Throws where numbers that came from a device are void; see World::check. Empty: they are not.
  std::function<void()> check_ranks = {};
  std::function<StepNotes()> notes = {};  // asked when this rank's part of the step is done
  optim::GradScaler* scaler = nullptr;    // null: losses are not scaled
  Fp8Layers* fp8 = nullptr;               // null: all layers compute in compute.dtype
  // Kept up to date by what follows, but not by replays of a recorded step; null: nobody asks.
  StepProgress* progress = nullptr;
};

// What a step works on. All of it outlives the step.
struct StepParts {
  models::Model& model;
  const Task& task;
  optim::Optimizer& optimizer;
  const StepOptions& options;
  optim::Ema* ema = nullptr;  // null: there is none
};

// One rank's part of a batch.
struct StepInput {
  int64_t size = 0;      // samples
  int64_t position = 0;  // of the batch's first sample in the run's order; for messages
  data::BatchShare share = {};
  int64_t global_size = 0;  // of the whole batch; 0: not known, ranks have as many passes each
  // Samples [begin, end) of the part; what they refer to outlives the step.
  std::function<TensorBatch(int64_t begin, int64_t end)> tensors;
  bool has_passes = false;  // `tensors` knows the passes of one size alone
};

// Of a loader's batch, which outlives it.
StepInput input_of(data::Batch& batch, const StepParts& parts);

// What the micro-batches of a step add up to. Before the ranks and slots are summed: this rank's.
struct StepSums {
  double weight = 0;               // what the loss is divided by
  std::vector<std::string> names;  // of further sums: metrics
  at::Tensor numbers;              // [1 + names] float64: the loss, then those; [V, 1 + names]
                                   // of V slots, zeros of those of others
  std::vector<double> slot_weights = {};  // [V], likewise; empty: there are no slots
  std::vector<bool> is_empty = {};        // [V] slots
  double first_weight = 0;                // of slots [0, V / 2), of `weight`
  // [T, 3] float64, of the gradients of the slots' halves (GradientSync::halves); undefined: they
  // are not measured.
  at::Tensor halves = {};
  bool has_empty_rank = false;    // one without samples, whose numbers are not defined
  c10::Device device = at::kCPU;  // of the numbers

  bool has_slots() const { return !slot_weights.empty(); }
};

// Of the whole batch; gradients, which are the optimizer's, likewise.
struct PreparedStep {
  int64_t step = 0, position = 0;
  StepSums sums;
  StepNotes notes;
  // Of kernels::clip_state, on the device of the gradients: what the update multiplies them by, so
  // that they are those of the mean loss, clipped.
  at::Tensor clip;
};

// Note [Steps that break off]
// A rank that is lost ends the collective that the others are in with an error, some of them in
// another one than others. The last collective of prepare_step is that of the numbers (and of
// clipping, where parameters are parts): who has come out of it knows that all others have gone in,
// so that each has the sums of the gradients, or its parts of them. Then a rank that broke off in
// it lacks the numbers alone, which another one may give it (finish_step). Who broke off before
// that has changed nothing but gradients, and takes the step anew. Only an update that sums over
// parts itself (LAMB, Adafactor and Muon, of parameters that are parts) can break off within, and
// leaves nothing that could be gone on from.
enum class StepStage {
  kBegun,     // nothing has changed but gradients
  kSummed,    // gradients are the sums over the ranks
  kPrepared,  // and the numbers are there
  kApplying,  // some weights may have changed
  kApplied,   // or left out
};

// Where a rank stands with its newest step.
struct StepProgress {
  StepStage stage = StepStage::kApplied;
  int64_t step = -1;           // -1: there was none
  PreparedStep prepared = {};  // from kPrepared on
  bool has_outcome = false;    // outcome_of has told the scaler
};

// Equal on all ranks.
struct StepOutcome {
  double loss = 0;       // mean over the batch
  double weight = 0;     // what the loss was divided by
  double grad_norm = 0;  // before clipping
  // With a scaler: the loss or the gradient is not finite, and apply_step is to be left out.
  bool is_skipped = false;
  double loss_scale = 0;  // of the next step; 0 without a scaler
  std::map<std::string, double> sums;
  StepNotes notes;
  std::optional<elastic::GradientHalves> halves = {};  // nothing: not measured
};

// Forward and backward over the micro-batches of `batch`, this rank's part of the whole batch, and
// the sums over all ranks, so that parts may weigh differently. clip_before: of a late step before
// this one, of which what was not finite stays so. Collective over the ranks of the options. A
// rank may have no samples at all. Throws Error where the batch's weights sum to nothing.
PreparedStep prepare_step(const StepParts& parts, const StepInput& batch, int64_t step,
                          Numbers numbers = Numbers::kAtOnce, const at::Tensor& clip_before = {});
PreparedStep prepare_step(const StepParts& parts, data::Batch& batch, int64_t step);

// The numbers of a step; waits for the device. Tells the scaler, so once for each step. Throws
// DivergedError, on all ranks at the same step, when the loss or the gradient is not finite; with a
// scaler, when the scale has then fallen below its limit.
StepOutcome outcome_of(const PreparedStep& prepared, const StepOptions& options);

// Clips, updates and averages, with learning rate `lr`. A step that is not finite changes no
// weight. Collective where parameters are parts.
void apply_step(const StepParts& parts, const PreparedStep& prepared, double lr);
// In place of apply_step where the outcome says so.
void leave_out_step(const StepParts& parts);

// What remains of a step by itself, waiting for no other rank: outcome_of, where nobody has asked
// for it yet, and the update, unless the scaler leaves it out. prepared: its own, or that of a rank
// that has come further; then progress.stage is kSummed.
StepOutcome finish_step(const StepParts& parts, const PreparedStep& prepared, double lr);
// Whether that is so of the gradients' clipping and of the update.
bool can_finish_alone(const StepParts& parts);

// Whether numbers can come late: where no scale follows from them, and clipping needs no more of
// the gradients than their norm.
bool can_be_late(const StepParts& parts);

}  // namespace fovea::train
