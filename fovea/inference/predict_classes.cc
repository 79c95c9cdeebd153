// Labels and scores. K classes.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <numeric>

#include "fovea/core/error.h"
#include "fovea/inference/pass.h"
#include "fovea/inference/predictor.h"
#include "fovea/inference/ready_input.h"

namespace fovea::inference {
namespace {

// Of a volume that is seen in tiles: each slice, where they are slices, and the mean of all.
Classes classes_of(const OpenInput& input, const train::Inference& inference) {
  const InputPasses passes(input, inference);
  std::vector<at::Tensor> parts;
  for (int64_t pass = 0; pass < passes.size(); ++pass)
    parts.push_back(scores_of(inference, passes[pass].tensors));
  if (!passes.tiles()) return {.scores = parts.front()[0]};
  const auto scores = at::cat(parts);  // [tiles, K]
  Classes classes{.scores = scores.mean(0)};
  if (inference.takes_slices()) {
    const auto depth = passes.tiles()->tiling(0).axes()[0].count;
    classes.of_slices = scores.view({depth, -1, scores.size(1)}).mean(1);
  }
  return classes;
}

}  // namespace

std::vector<ClassScore> best(const at::Tensor& scores, int64_t top) {
  const auto [values, labels] = scores.topk(std::min(top, scores.size(0)), 0);  // [top]
  std::vector<ClassScore> chosen;
  for (int64_t k = 0; k < values.size(0); ++k) {
    chosen.push_back({labels[k].item<int64_t>(), values[k].item<double>()});
  }
  return chosen;
}

std::vector<Outcome<Classes>> Predictor::classes(const std::vector<Input>& inputs) const {
  const at::NoGradGuard no_grad;
  expect(Kind::kClasses);
  const auto loaded = loaded_for(inputs);
  const auto opened = open_inputs(inputs, *loaded);
  if (are_cut(opened, *loaded)) {
    return one_by_one<Classes>(opened,
                               [&](const OpenInput& input) { return classes_of(input, *loaded); });
  }
  std::vector<Outcome<Classes>> outcomes;
  for (auto& one : in_batches(opened, *loaded, scores_of)) {
    outcomes.push_back({.error = one.error});
    if (one.value) outcomes.back().value = Classes{.scores = *one.value};
  }
  return outcomes;
}

}  // namespace fovea::inference
