#include "fovea/train/step/loss_of_batch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace fovea::train {

void LossOfBatch::add(const LossParts& parts) {
  const auto sums = parts.statistics.detach();
  sums_ = sums_.defined() ? sums_ + sums : sums;
  weight_ += parts.weight;
}

void LossOfBatch::finish(bool is_any_empty, c10::Device device) {
  if (is_any_empty) {
    const double own = sums_.defined() ? static_cast<double>(sums_.size(0)) : 0;
    const auto size = parallel::max_over_ranks(ranks_, own, "number of statistics of the loss");
    if (!sums_.defined()) {
      sums_ = at::zeros({std::llround(size)}, at::TensorOptions(device).dtype(at::kDouble));
    }
  }
  const auto all = at::cat({sums_, at::full({1}, weight_, sums_.options())});
  ranks_.all_reduce(all, "statistics of the loss");
  const int64_t size = sums_.size(0);
  const at::AutoGradMode with_graph(true);
  const auto statistics = all.narrow(0, 0, size).clone().requires_grad_();
  const auto loss = task_.loss_of_statistics(statistics);
  loss.backward();
  loss_ = loss.detach();
  gradient_ = statistics.grad() * all[size];
  is_whole_ = true;
}

}  // namespace fovea::train
