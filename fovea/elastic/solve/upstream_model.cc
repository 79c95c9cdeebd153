#include "fovea/elastic/solve/upstream_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fovea::elastic {
namespace {

double rounded(double value, int decimals) {
  const double factor = std::pow(10, decimals);
  return std::round(value * factor) / factor;
}

}  // namespace

std::optional<UpstreamModel> UpstreamModel::of(const DeviceProfile& profile, int64_t local_batch,
                                               WeightSync sync, double last_share) {
  std::vector<const ComputationPoint*> points;
  for (const auto& point : profile.computation) {
    if (point.local_batch == local_batch) points.push_back(&point);
  }
  UpstreamModel model;
  model.local_batch_ = local_batch;
  model.most_concurrent_ = profile.max_concurrent(local_batch);
  if (points.empty() || points[0]->concurrent != 1 || model.most_concurrent_ < 1) return {};
  const auto& last = *points.back();
  model.update_ = last.update_ms;
  const auto others = static_cast<double>(last.concurrent - 1);
  model.copy_ = last.concurrent > 1 ? last.copy_ms / others : 0;
  model.forward_share_ = last.forward_ms / (last.forward_ms + last.backward_ms);
  model.sync_ = last.sync_ms;
  model.share_ = sync == WeightSync::kOverlap ? last_share : 1;
  std::vector<double> logs;
  for (const auto* point : points) {
    const double seconds = (point->forward_ms + point->backward_ms) / 1000;
    const double throughput = static_cast<double>(local_batch * point->concurrent) / seconds;
    if (point->concurrent == 1) model.one_worker_ = rounded(throughput, 2);
    logs.push_back(std::log(static_cast<double>(point->concurrent)));
    model.relative_.push_back(rounded(throughput / model.one_worker_, 3));
    model.data_.emplace_back(point->concurrent, point->data_ms);
  }
  if (!(model.one_worker_ > 0)) return {};
  model.is_fitted_ = last.concurrent >= 3;
  if (model.is_fitted_) {
    model.logarithm_ = fit_line(logs, model.relative_);
  } else {
    model.most_concurrent_ =
        std::min(model.most_concurrent_, static_cast<int64_t>(model.relative_.size()));
  }
  return model;
}

double UpstreamModel::relative_throughput(int64_t concurrent) const {
  if (is_fitted_) return logarithm_.at(std::log(static_cast<double>(concurrent)));
  return relative_[static_cast<size_t>(concurrent - 1)];
}

double UpstreamModel::data_ms(int64_t concurrent) const {
  for (const auto& [n, ms] : data_) {
    if (n == concurrent) return ms;
  }
  return data_.front().second * static_cast<double>(concurrent);
}

StepParts UpstreamModel::parts(int64_t concurrent, int64_t accumulation,
                               const NetworkTime& network) const {
  const auto n = static_cast<double>(concurrent), times = static_cast<double>(accumulation + 1);
  const double samples = static_cast<double>(local_batch_) * n;
  const double both = 1000 * rounded(samples / (relative_throughput(concurrent) * one_worker_), 4);
  const double forward = both * forward_share_, backward = both * (1 - forward_share_);
  return {.data = data_ms(concurrent) * times,
          .forward = forward * times,
          .backward = backward * times,
          .sync = sync_ * n,
          .communication = std::max(backward, network.before_last) - backward + network.last,
          .update = (update_ + copy_ * (n - 1)) * share_};
}

}  // namespace fovea::elastic
