// A pass of a model on the CPU that is recorded once and then done again without libtorch.
//
// Note [Recorded passes]
// Between the kernels of a pass libtorch makes tensors and views, chooses operators and counts
// references; while weights come by, the code of that leaves the caches, and of a single small
// image it takes a tenth to a third of the time. All of it comes to the same in each pass over an
// input of the same shape. So a pass is recorded: each kernel says what it does with numbers and
// addresses (run_kernel), operators of libtorch that make values are noted with their tensors, but
// what is made of weights alone is kept, and tensors lie in a pool, which gives a place to several
// of them one after the other as the pass did. To replay it is to do these steps in order; the bits
// are the pass's.
//
// What cannot be done again is refused: what reads values on the way, and what other threads do
// with libtorch. And what nobody noted would give old values without a word; so a recorded pass is
// compared to the bit with an ordinary one, on an input of other values, before it is used. Whoever
// asks meanwhile gets what was made for him on the way: recording takes no pass more than he asked
// for, and confirming one.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/kernels/cpu_memory_pool.h"

namespace fovea::kernels {

class RecordedPass {
 public:
  // Of an input [...] on the CPU, without gradients.
  using Forward = c10::function_ref<at::Tensor(const at::Tensor& input)>;

  struct Recording;
  // forward(input), and what it does with such an input, not confirmed yet. Throws what forward
  // throws.
  static Recording record(const at::Tensor& input, Forward forward);
  ~RecordedPass();
  RecordedPass(const RecordedPass&) = delete;
  RecordedPass& operator=(const RecordedPass&) = delete;

  // forward(input), as the pass that was recorded: confirmed where it can be done again. input: of
  // the shape and dtype that were recorded. Throws what forward throws, and is not confirmed then.
  at::Tensor confirm(const at::Tensor& input, Forward forward);
  bool is_confirmed() const { return is_confirmed_; }

  // input: of the shape that was recorded, in any dtype that is cast to its dtype -> what forward
  // makes of it, to the bit, of a pass that is confirmed. One thread at a time.
  at::Tensor replay(const at::Tensor& input) const;

  // Whether the weights are as they were, and nobody watches them: else replay is of the old ones.
  bool is_current() const;

  // Of the memory of its tensors.
  int64_t bytes() const { return pool_->bytes(); }

 private:
  friend class PassRecorder;
  friend class RecordingScope;
  struct Weight {
    at::Tensor values;
    int64_t version;
  };

  RecordedPass();
  at::Tensor do_again(const at::Tensor& input) const;
  bool has_pool() const;
  void hold(const std::vector<at::Tensor>& tensors);
  bool are_constant(const std::vector<at::Tensor>& tensors) const;

  std::shared_ptr<CpuMemoryPool> pool_ = CpuMemoryPool::make();
  at::Tensor input_, output_;
  std::vector<std::function<void()>> steps_;
  std::vector<Weight> weights_;
  std::vector<at::Tensor> constants_;
  std::vector<at::Tensor> held_;  // where the allocator knows no pools
  int64_t arrangement_;
  bool is_confirmed_ = false;
};

struct RecordedPass::Recording {
  at::Tensor result;
  std::unique_ptr<RecordedPass> pass;  // null where it cannot be done again
  std::string why_not;                 // then
};

// What kernels tell of the pass that their thread records.
class PassRecorder {
 public:
  // A step, which is done, too. What it captures: numbers, addresses of tensors' memory and of
  // weights, and what it owns.
  void run(std::function<void()> step);
  // A copy of these weights, or something else that was made of them once, is among what steps
  // capture.
  void depend_on(const at::Tensor& weight);
  // "reads values": why the pass cannot be done again.
  void refuse(std::string why);

 private:
  friend class RecordedPass;
  friend class RecordingScope;
  explicit PassRecorder(RecordedPass& pass) : pass_(pass) {}

  RecordedPass& pass_;
  std::string why_not_;
  int64_t depth_ = 0;  // of operators within each other
};

// Of the pass that this thread records; null: none.
PassRecorder* pass_recorder();

// While alive, what this thread does is no part of the pass that it records: what is made once.
class RecordingPause {
 public:
  RecordingPause();
  ~RecordingPause();
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  PassRecorder* before_;
  CpuMemoryPoolScope pool_;
};

// Runs a kernel: work(), which captures as PassRecorder::run says. Every kernel that a pass of
// inference may come to goes through here.
template <class Work>
void run_kernel(Work&& work) {
  if (auto* recorder = pass_recorder()) return recorder->run(std::forward<Work>(work));
  work();
}

}  // namespace fovea::kernels
