#include "fovea/parallel/part_sum.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

namespace fovea::parallel {

PartSum::PartSum(Communicator& ranks, const at::Tensor& sent, at::ScalarType dtype,
                 const std::string& what, const at::Tensor& out)
    : dtype_(dtype), sent_(sent), out_(out) {
  if (ranks.size() == 1) return;
  if (!out_.defined()) out_ = at::empty({sent.numel() / ranks.size()}, sent.options().dtype(dtype));
  pending_ = ranks.start_reduce_scatter(out_, sent, what);
}

at::Tensor PartSum::finish() {
  const at::NoGradGuard no_grad;
  if (!pending_) return out_.defined() ? out_.copy_(sent_) : sent_.to(dtype_);
  pending_->wait();
  pending_.reset();
  sent_.reset();
  return out_;
}

}  // namespace fovea::parallel
