#include "fovea/train/metrics/knn.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

constexpr int64_t kQueriesAtOnce = 1024;  // [1024, M] similarities at a time

// Rows of length 1; a row of zeros stays one.
at::Tensor to_unit_rows(const at::Tensor& features) {
  const auto x = features.to(at::kFloat);
  return x / x.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

double percent_within(const at::Tensor& ranked, const at::Tensor& labels, int64_t count) {
  const auto first = ranked.narrow(1, 0, std::min(count, ranked.size(1)));  // [Q, count]
  const auto hits = first.eq(labels.unsqueeze(1)).any(1).sum().item<int64_t>();
  return 100.0 * static_cast<double>(hits) / static_cast<double>(labels.size(0));
}

}  // namespace

Neighbors nearest_neighbors(const at::Tensor& queries, const KnnBank& bank, int64_t k) {
  if (bank.features.size(0) < k) {
    fail<ConfigError>("k = {} neighbours of {} training samples; expected a k of at most that many",
                      k, bank.features.size(0));
  }
  const auto keys = to_unit_rows(bank.features).t();  // [F, M]
  const auto unit = to_unit_rows(queries);
  std::vector<at::Tensor> similarities, labels;
  for (int64_t begin = 0; begin < unit.size(0); begin += kQueriesAtOnce) {
    const auto rows = unit.narrow(0, begin, std::min(kQueriesAtOnce, unit.size(0) - begin));
    const auto [nearest, indices] = at::mm(rows, keys).topk(k, 1);  // [q, k]
    similarities.push_back(nearest);
    labels.push_back(bank.labels.index_select(0, indices.flatten()).view_as(indices));
  }
  return {at::cat(similarities), at::cat(labels)};
}

at::Tensor knn_votes(const Neighbors& neighbors, int64_t k, double temperature,
                     int64_t num_classes) {
  const auto weights = at::softmax(neighbors.similarities.narrow(1, 0, k) / temperature, 1);
  const auto votes = at::zeros({weights.size(0), num_classes}, weights.options());
  return votes.scatter_add(1, neighbors.labels.narrow(1, 0, k), weights);  // [Q, C]
}

std::map<std::string, double> knn_metrics(const at::Tensor& queries, const at::Tensor& labels,
                                          const KnnBank& bank, int64_t num_classes,
                                          const KnnOptions& options) {
  FOVEA_CHECK(!options.k.empty() && options.temperature > 0,
              "{} numbers of neighbours, temperature "
              "{}; expected at least one and more than 0",
              options.k.size(), options.temperature);
  const auto largest = *std::max_element(options.k.begin(), options.k.end());
  const auto neighbors = nearest_neighbors(queries, bank, largest);
  std::map<std::string, double> metrics;
  for (const int64_t k : options.k) {
    const auto votes = knn_votes(neighbors, k, options.temperature, num_classes);
    const auto ranked = votes.argsort(/*stable=*/true, 1, /*descending=*/true);  // [Q, C]
    metrics[fmt::format("knn{}_top1", k)] = percent_within(ranked, labels, 1);
    metrics[fmt::format("knn{}_top5", k)] = percent_within(ranked, labels, 5);
  }
  return metrics;
}

}  // namespace fovea::train
