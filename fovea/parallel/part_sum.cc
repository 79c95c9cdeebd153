#include "fovea/parallel/part_sum.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace fovea::parallel {

PartSum::PartSum(Communicator& ranks, const at::Tensor& sent, at::ScalarType dtype,
                 const std::string& what)
    : num_ranks_(ranks.size()), dtype_(dtype), sent_(sent) {
  if (num_ranks_ == 1) return;
  if (sent.scalar_type() == dtype) {
    received_ = at::empty({sent.numel() / num_ranks_}, sent.options());
    pending_ = ranks.start_reduce_scatter(received_, sent, what);
  } else {
    received_ = at::empty_like(sent);
    pending_ = ranks.start_all_to_all(received_, sent, what);
  }
}

at::Tensor PartSum::finish() {
  const at::NoGradGuard no_grad;
  if (!pending_) return sent_.to(dtype_);
  pending_->wait();
  pending_.reset();
  sent_.reset();
  if (received_.scalar_type() == dtype_) return received_;
  return received_.view({num_ranks_, -1}).to(dtype_).sum(0);  // [part]
}

}  // namespace fovea::parallel
