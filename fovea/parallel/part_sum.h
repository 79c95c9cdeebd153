// The sum of what ranks have, of which each gets its own part.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "fovea/parallel/communicator.h"

namespace fovea::parallel {

class PartSum {
 public:
  // Starts it. sent: [ranks.size() * part]; of bfloat16 the numbers travel as they are and are
  // summed in `dtype`. A group of one exchanges nothing. out: [part] of `dtype` on the device of
  // `sent`, which becomes the sum; undefined: a tensor of its own does.
  PartSum(Communicator& ranks, const at::Tensor& sent, at::ScalarType dtype,
          const std::string& what, const at::Tensor& out = {});

  // Waits for it: [part] of `dtype`, `out` where there is one. To be called once.
  at::Tensor finish();

 private:
  at::ScalarType dtype_;
  at::Tensor sent_, out_;
  std::unique_ptr<Pending> pending_;
};

}  // namespace fovea::parallel
