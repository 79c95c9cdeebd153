// Forward passes of a loaded model that are recorded, by the shape of their input.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "fovea/kernels/recorded_pass.h"
#include "fovea/nn/unit.h"

namespace fovea::nn {

// Of inference with one model; see Note [Recorded passes]. Thread-safe: each thread that asks at
// the same time has a recorded pass of its own, with its own memory.
class RecordedForward {
 public:
  // model: outlives it.
  explicit RecordedForward(UnitImpl& model);

  // forward(input in `dtype`), of the model and the same function each time; replayed where inputs
  // of that shape have come before, nobody looks at what is between, and it can be recorded.
  at::Tensor run(const at::Tensor& input, at::ScalarType dtype,
                 kernels::RecordedPass::Forward forward);

 private:
  using Pass = std::unique_ptr<kernels::RecordedPass>;
  // Of an input, and how many threads share the pass: whether each takes samples of its own
  // follows from both.
  using Key = std::tuple<std::vector<int64_t>, at::ScalarType, int64_t>;
  struct OfShape {
    int64_t num_ordinary = 0;  // passes that were run as they come
    bool can_be_recorded = true;
    std::vector<Pass> idle;
  };
  // One that is current, confirmed or not, or null; and whether one is to be recorded.
  struct Taken {
    Pass pass;
    bool is_wanted = false;
  };
  class Loan;

  bool is_watched() const;
  Taken take(const Key& key);
  void keep_new(const Key& key, Pass pass);   // null: there is none of this shape
  void give_back(const Key& key, Pass pass);  // not confirmed: likewise

  std::vector<const UnitImpl*> units_;
  std::mutex mutex_;
  std::map<Key, OfShape> shapes_;
  int64_t bytes_ = 0;  // of all passes, idle or not
};

}  // namespace fovea::nn
