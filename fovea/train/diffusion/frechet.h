// How far two sets of images are apart: the Frechet distance between normal distributions fitted to
// their features (Heusel et al. 2017, FID, there with Inception's features).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace fovea::train {

// Mean and covariance of feature vectors, summed in float64. F features.
class FeatureMoments {
 public:
  // features: [B, F], any float dtype.
  void add(const at::Tensor& features);
  // Takes in the vectors that another one has seen.
  void add(const FeatureMoments& other);

  // Its state for another process: count, and the three sums below.
  nlohmann::json to_json() const;
  static FeatureMoments from_json(const nlohmann::json& value);

  int64_t count() const { return count_; }
  at::Tensor mean() const;        // [F] float64
  at::Tensor covariance() const;  // [F, F] float64, divided by count - 1. Throws Error below two.

 private:
  int64_t count_ = 0;
  at::Tensor shift_;     // [F]: the first vector; sums of differences lose fewer digits
  at::Tensor sum_;       // [F]
  at::Tensor products_;  // [F, F]
};

// The root of a symmetric matrix without negative eigenvalues (those below zero by rounding count
// as zero). matrix: [F, F] float64.
at::Tensor symmetric_sqrt(const at::Tensor& matrix);

// |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)), at least 0.
double frechet_distance(const FeatureMoments& left, const FeatureMoments& right);

}  // namespace fovea::train
