// B batch, F features.
#include "fovea/train/diffusion/frechet.h"

#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/train/evaluate/evaluation_parts.h"

namespace fovea::train {

void FeatureMoments::add(const at::Tensor& features) {
  FOVEA_CHECK(features.dim() == 2, "features of {} dims; expected [B, F]", features.dim());
  if (features.size(0) == 0) return;
  const auto rows = features.to(at::kCPU, at::kDouble);  // [B, F]
  if (count_ == 0) {
    shift_ = rows[0].clone();
    sum_ = at::zeros_like(shift_);
    products_ = at::zeros({rows.size(1), rows.size(1)}, rows.options());
  }
  const auto centred = rows - shift_;
  sum_ += centred.sum(0);
  products_ += centred.t().matmul(centred);
  count_ += rows.size(0);
}

void FeatureMoments::add(const FeatureMoments& other) {
  if (other.count_ == 0) return;
  if (count_ == 0) {
    *this = other;
    return;
  }
  // Its sums are of differences from its own shift.
  const auto apart = other.shift_ - shift_;  // [F]
  const auto n = static_cast<double>(other.count_);
  const auto mixed = apart.outer(other.sum_);
  sum_ = sum_ + other.sum_ + n * apart;
  products_ = products_ + other.products_ + mixed + mixed.t() + n * apart.outer(apart);
  count_ += other.count_;
}

nlohmann::json FeatureMoments::to_json() const {
  return {{"count", count_},
          {"shift", json_of(shift_)},
          {"sum", json_of(sum_)},
          {"products", json_of(products_)}};
}

FeatureMoments FeatureMoments::from_json(const nlohmann::json& value) {
  FeatureMoments moments;
  moments.count_ = value.at("count");
  moments.shift_ = tensor_of(value.at("shift"));
  moments.sum_ = tensor_of(value.at("sum"));
  moments.products_ = tensor_of(value.at("products"));
  return moments;
}

at::Tensor FeatureMoments::mean() const {
  FOVEA_CHECK(count_ > 0, "the mean of no features");
  return shift_ + sum_ / static_cast<double>(count_);
}

at::Tensor FeatureMoments::covariance() const {
  FOVEA_CHECK(count_ > 1, "the covariance of {} feature vectors; expected at least 2", count_);
  const auto n = static_cast<double>(count_);
  return (products_ - sum_.outer(sum_) / n) / (n - 1);
}

at::Tensor symmetric_sqrt(const at::Tensor& matrix) {
  const auto [values, vectors] = at::linalg_eigh(matrix);  // [F], [F, F]
  return (vectors * values.clamp_min(0).sqrt()).matmul(vectors.t());
}

double frechet_distance(const FeatureMoments& left, const FeatureMoments& right) {
  const auto c1 = left.covariance(), c2 = right.covariance();
  // The eigenvalues of C1 C2 are those of the symmetric C1^(1/2) C2 C1^(1/2).
  const auto root = symmetric_sqrt(c1);
  const auto product = root.matmul(c2).matmul(root);
  const auto mixed = symmetric_sqrt((product + product.t()) / 2).trace();
  const auto distance =
      (left.mean() - right.mean()).square().sum() + c1.trace() + c2.trace() - 2 * mixed;
  return std::max(0.0, distance.item<double>());
}

}  // namespace fovea::train
