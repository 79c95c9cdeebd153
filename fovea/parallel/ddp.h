// Data parallel: gradients summed over ranks while backward still runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/parallel/communicator.h"
#include "fovea/parallel/gradient_sync.h"

namespace fovea::parallel {

// A parameter whose gradient is a view of a flat buffer.
struct FlatParameter {
  std::string name;
  at::Tensor param;
  int64_t begin = 0;  // of its gradient in the buffer, in elements
};

struct ReducerOptions {
  int64_t bucket_bytes = int64_t{25} << 20;       // of gradients that travel together
  int64_t first_bucket_bytes = int64_t{1} << 20;  // small, so that the exchange starts early
  // at::kBFloat16: gradients travel in it and are summed in float32. Else in their own dtype.
  at::ScalarType wire_dtype = at::kFloat;
};

// Note [Buckets]
// Backward makes the gradients of the last layers first, and the buffer holds parameters in the
// order of the layers, so buckets are ranges of the buffer from its end to its start. A bucket is
// summed in place, without a copy, as soon as its last gradient is there, in its turn: rank after
// rank starts the same buckets in the same order, whatever order backward took. A parameter that a
// rank did not use has a gradient of zeros; its bucket goes when backward is over. The sum is
// divided by nothing here: the weight of the batch is known when all ranks have told theirs.
class GradientReducer final : public GradientSync {
 public:
  // params: in the order of the buffer, each a leaf whose .grad() is a view of `flat_grad`. Hooks
  // their gradients until destruction. `ranks` outlives it.
  GradientReducer(std::vector<FlatParameter> params, const at::Tensor& flat_grad,
                  Communicator& ranks, const ReducerOptions& options = {});
  ~GradientReducer() override;
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Backwards before the last one only add up; with that, sums travel while it runs.
  void before_backward(bool is_last) override;
  void after_backward() override {}
  void finish() override;  // `flat_grad` is then the sum
  bool meets_in_passes() const override { return false; }

  // The ranges of the buffer, in the order in which they travel.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  std::vector<Range> buckets() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::parallel
