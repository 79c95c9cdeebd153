// What a thread's forwards go by besides their arguments: which training step they belong to, who
// asks for intermediates, whether they see a whole sequence, whether they are run a second time.
//
// One value for each thread, set by scopes that put back what was there. What has to run in another
// thread, such as a forward that is repeated in backward, takes the value along.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fovea::nn {

// What drops are drawn by.
struct StepState {
  uint64_t seed = 0;
  uint32_t step = 0;
  at::Tensor rows;               // [B] int64: of the global batch
  std::vector<int64_t> offsets;  // of samples that are packed into a single row
  at::Tensor stamp;              // see kernels::DropKey
  at::Tensor host_stamp;         // see kernels::DropKey
};

// Of intermediates: all tokens, or those that are made anyhow, see Note [Tokens that are read].
enum class RecordedTokens { kAll, kMade };

// Intermediates by name, in the order they come up.
struct Recorder {
  std::vector<std::string> wanted;  // empty: all but those that cost extra
  RecordedTokens tokens = RecordedTokens::kAll;
  std::vector<std::pair<std::string, at::Tensor>> kept;

  bool wants_by_name(const std::string& name) const;
};

struct ForwardContext {
  std::optional<StepState> step;  // none: outside of training
  Recorder* recorder = nullptr;   // null: nobody asks
  // Tokens of the sequences of which forwards see a part alone, without padding; 0: they see whole
  // ones. See parallel/sequence.h.
  int64_t sequence_length = 0;
  // Forwards that backward repeats, the first time and the second: what is chosen by whether
  // gradients are taken is chosen as if they were, so that both give the same bits.
  bool runs_again = false;
  // Whether threads may take samples of their own, see samples_apart.h.
  bool samples_apart = false;

  // For the second run: the same drops, and no intermediate is recorded twice.
  ForwardContext of_second_run() const;
};

// Of this thread.
ForwardContext& forward_context();

// While alive, `context` is this thread's.
class ContextScope {
 public:
  explicit ContextScope(ForwardContext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  ForwardContext before_;
};

// While alive, this thread's forwards belong to training step `step` and hold these rows of the
// global batch.
class StepScope {
 public:
  StepScope(uint64_t seed, int64_t step, at::Tensor rows);  // rows: [B] int64
  explicit StepScope(StepState state);

 private:
  ContextScope scope_;
};

// While alive, named intermediates of this thread's forwards are collected.
class RecordScope {
 public:
  // Only names in `wanted` are kept; empty: all.
  explicit RecordScope(std::vector<std::string> wanted = {},
                       RecordedTokens tokens = RecordedTokens::kAll);

  const std::vector<std::pair<std::string, at::Tensor>>& intermediates() const {
    return recorder_.kept;
  }

 private:
  Recorder recorder_;
  ContextScope scope_;
};

// True where someone asks by this name for an intermediate that costs extra (attention
// probabilities): a recorder of "all" does not get those.
bool is_recording(const std::string& name);

}  // namespace fovea::nn
