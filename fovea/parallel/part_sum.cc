#include "fovea/parallel/part_sum.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>

namespace fovea::parallel {

PartSum::PartSum(Communicator& ranks, const at::Tensor& sent, at::ScalarType dtype,
                 const std::string& what, const at::Tensor& out)
    : num_ranks_(ranks.size()), dtype_(dtype), sent_(sent), out_(out) {
  if (num_ranks_ == 1) return;
  if (sent.scalar_type() == dtype) {
    if (!out_.defined()) out_ = at::empty({sent.numel() / num_ranks_}, sent.options());
    pending_ = ranks.start_reduce_scatter(out_, sent, what);
  } else {
    received_ = at::empty_like(sent);
    pending_ = ranks.start_all_to_all(received_, sent, what);
  }
}

at::Tensor PartSum::finish() {
  const at::NoGradGuard no_grad;
  if (!pending_) return out_.defined() ? out_.copy_(sent_) : sent_.to(dtype_);
  pending_->wait();
  pending_.reset();
  sent_.reset();
  if (!received_.defined()) return out_;
  const auto parts = received_.view({num_ranks_, -1}).to(dtype_);
  return out_.defined() ? at::sum_out(out_, parts, 0) : parts.sum(0);  // [part]
}

}  // namespace fovea::parallel
