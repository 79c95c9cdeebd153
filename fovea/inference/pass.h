// Passes of the model over opened inputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "fovea/inference/predict_input.h"
#include "fovea/train/evaluate/sliding_window.h"

namespace fovea::inference {

// Whether the model sees some of them in tiles.
bool are_cut(const std::vector<OpenInput>& inputs, const train::Inference& inference);

// In evaluation mode. -> logits, or what else forward gives.
at::Tensor forward(const train::Inference& inference, const train::TensorBatch& batch);
// The same; images may be on any device and in any dtype.
at::Tensor forward(const train::Inference& inference, const models::ModelInput& input);
// -> [B, F] as train::features_of, which changes the model's mode on its way.
at::Tensor pooled_features(const train::Inference& inference, const train::TensorBatch& batch);

// -> [B, K] float32 on the CPU, rows that sum to 1. Throws ConfigError: a model without logits.
at::Tensor scores_of(const train::Inference& inference, const train::TensorBatch& batch);
// Of a segmenter: how the run evaluates images that are larger than its windows.
train::SlidingWindowConfig sliding_window_of(const train::Inference& inference);

// compute(batch of B inputs) -> [B, ...]
using Pass =
    std::function<at::Tensor(const train::Inference& inference, const train::TensorBatch& batch)>;

using train::kPassSize;

// Samples of `indices` in passes of at most kPassSize, or as many as there is memory for: a row
// [...] float32 on the CPU for each. Those that cannot be read with the others (they have another
// size) are tried alone.
std::vector<Outcome<at::Tensor>> in_passes(const std::shared_ptr<const data::Dataset>& samples,
                                           std::span<const int64_t> indices,
                                           const train::Inference& inference, const Pass& pass);

// The same of opened inputs: samples of one data set together, tensors of one size together, and
// ready inputs whose samples have one shape.
std::vector<Outcome<at::Tensor>> in_batches(const std::vector<OpenInput>& inputs,
                                            const train::Inference& inference, const Pass& pass);

// answer(input) of each; a DataError is that input's alone.
template <class T, class Answer>
std::vector<Outcome<T>> one_by_one(const std::vector<OpenInput>& inputs, const Answer& answer) {
  std::vector<Outcome<T>> outcomes(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    try {
      if (inputs[i].error) throw *inputs[i].error;
      outcomes[i].value.emplace(answer(inputs[i]));
    } catch (const DataError& error) {
      outcomes[i].error = error;
    }
  }
  return outcomes;
}

}  // namespace fovea::inference
