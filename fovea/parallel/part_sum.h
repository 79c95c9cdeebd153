// The sum of what ranks have, of which each gets its own part.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "fovea/parallel/communicator.h"

namespace fovea::parallel {

class PartSum {
 public:
  // Starts it. sent: [ranks.size() * part]; where it is not of `dtype`, the numbers travel as they
  // are, once, and are summed in that. A group of one exchanges nothing.
  PartSum(Communicator& ranks, const at::Tensor& sent, at::ScalarType dtype,
          const std::string& what);

  // Waits for it: [part] of `dtype`. To be called once.
  at::Tensor finish();

 private:
  int64_t num_ranks_;
  at::ScalarType dtype_;
  at::Tensor sent_, received_;  // received: [part], or all ranks' where it is summed here
  std::unique_ptr<Pending> pending_;
};

}  // namespace fovea::parallel
