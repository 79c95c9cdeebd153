// Classification by the nearest neighbours of features, without training: how DINO and DINOv2 are
// judged.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fovea::train {

struct KnnOptions {
  std::vector<int64_t> k = {10, 20};
  double temperature = 0.07;
};

// The labelled samples that vote. F features, M samples.
struct KnnBank {
  at::Tensor features;  // [M, F] float32
  at::Tensor labels;    // [M] int64, from 0
};

// Neighbours of Q queries, the nearest first.
struct Neighbors {
  at::Tensor similarities;  // [Q, k] float32, cosines
  at::Tensor labels;        // [Q, k] int64
};

// queries: [Q, F]. Features are brought to length 1 first. Throws ConfigError where the bank has
// fewer than k samples.
Neighbors nearest_neighbors(const at::Tensor& queries, const KnnBank& bank, int64_t k);

// The votes of the first k neighbours, each exp(similarity / temperature) for its class, divided by
// their sum (Wu et al., "Unsupervised feature learning via non-parametric instance discrimination",
// CVPR 2018, section 3.4). -> [Q, num_classes] float32.
at::Tensor knn_votes(const Neighbors& neighbors, int64_t k, double temperature,
                     int64_t num_classes);

// "knn10_top1", "knn10_top5" for each k, in percent. labels: [Q] int64. Of classes with equal votes
// the lower one comes first.
std::map<std::string, double> knn_metrics(const at::Tensor& queries, const at::Tensor& labels,
                                          const KnnBank& bank, int64_t num_classes,
                                          const KnnOptions& options);

}  // namespace fovea::train
