#include "fovea/inference/pass.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <iterator>

#include "fovea/core/error.h"
#include "fovea/inference/ready_input.h"
#include "fovea/nn/samples_apart.h"
#include "fovea/train/tasks/segmentation.h"

namespace fovea::inference {
namespace {

// One pass over samples that can be read together, the others left in `rest`.
void pass_once(const std::shared_ptr<const data::Dataset>& samples,
               std::span<const int64_t> indices, const train::Inference& inference,
               const Pass& pass, std::span<Outcome<at::Tensor>> outcomes) {
  std::vector<size_t> places(indices.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  std::vector<size_t> alone;  // cannot be read, or not with the others
  while (!places.empty()) {
    std::vector<int64_t> wanted;
    for (const auto place : places) wanted.push_back(indices[place]);
    const auto read = inference.read(samples, wanted);
    if (read.are_read()) {
      const auto rows = pass(inference, read.batch->tensors).to(at::kCPU, at::kFloat);
      for (size_t row = 0; row < places.size(); ++row) {
        outcomes[places[row]].value = rows[static_cast<int64_t>(row)];
      }
      break;
    }
    std::vector<size_t> others;
    for (size_t row = 0; row < places.size(); ++row) {
      const auto& error = read.errors[row];
      if (error) outcomes[places[row]].error = error;
      (error ? alone : others).push_back(places[row]);
    }
    places = std::move(others);
  }
  if (indices.size() == 1) return;
  for (const auto place : alone) {
    outcomes[place].error.reset();
    pass_once(samples, indices.subspan(place, 1), inference, pass, outcomes.subspan(place, 1));
  }
}

bool is_ready_row(const OpenInput& input) { return input.ready && input.ready->is_row(); }

data::Batch& row_of(const OpenInput& input) { return input.ready->passes.front(); }

// Inputs of one run, which can be computed together. -> [B, ...]
at::Tensor pass_over_tensors(std::span<const OpenInput> inputs, const train::Inference& inference,
                             const Pass& pass) {
  std::vector<at::Tensor> images;
  for (const auto& input : inputs) images.push_back(input.tensor);
  train::TensorBatch batch;
  batch.variables = inference.channels;
  batch.images = at::cat(images).to(inference.compute.device, inference.compute.dtype);
  return pass(inference, batch).to(at::kCPU, at::kFloat);
}

at::Tensor pass_over_rows(std::span<const OpenInput> inputs, const train::Inference& inference,
                          const Pass& pass) {
  std::vector<const data::Batch*> rows;
  for (const auto& input : inputs) rows.push_back(&row_of(input));
  data::Batch together;
  if (rows.size() > 1) together = joined(rows);
  auto& batch = rows.size() > 1 ? together : row_of(inputs.front());
  return pass(inference, inference.on_device(batch)).to(at::kCPU, at::kFloat);
}

// In as many passes as memory wants.
void fill_in_passes(const std::shared_ptr<const data::Dataset>& samples,
                    std::span<const int64_t> indices, const train::Inference& inference,
                    const Pass& pass, std::span<Outcome<at::Tensor>> outcomes) {
  inference.passes->run(std::ssize(indices), [&](size_t first, size_t count) {
    pass_once(samples, indices.subspan(first, count), inference, pass,
              outcomes.subspan(first, count));
  });
}

// The same of inputs of one run.
void fill_in_passes(std::span<const OpenInput> inputs, const train::Inference& inference,
                    const Pass& pass, std::span<Outcome<at::Tensor>> outcomes) {
  inference.passes->run(std::ssize(inputs), [&](size_t first, size_t count) {
    const auto together = inputs.subspan(first, count);
    const auto rows = is_ready_row(inputs.front()) ? pass_over_rows(together, inference, pass)
                                                   : pass_over_tensors(together, inference, pass);
    for (size_t row = 0; row < count; ++row) {
      outcomes[first + row].value = rows[static_cast<int64_t>(row)];
    }
  });
}

// How many inputs from `first` on can be computed together.
size_t run_length(const std::vector<OpenInput>& inputs, size_t first) {
  const auto& one = inputs[first];
  size_t end = first + 1;
  const auto is_like = [&](const OpenInput& other) {
    if (other.error || is_ready_row(other) != is_ready_row(one)) return false;
    if (is_ready_row(one)) return have_rows_alike(row_of(one), row_of(other));
    if (other.samples != one.samples) return false;
    return one.samples != nullptr || other.tensor.sizes() == one.tensor.sizes();
  };
  while (end < inputs.size() && is_like(inputs[end])) ++end;
  return end - first;
}

}  // namespace

bool are_cut(const std::vector<OpenInput>& inputs, const train::Inference& inference) {
  return std::any_of(inputs.begin(), inputs.end(), [&](const OpenInput& input) {
    return input.samples && inference.cuts(input.samples->form());
  });
}

at::Tensor forward(const train::Inference& inference, const train::TensorBatch& batch) {
  const auto& model = *inference.model;
  if (batch.features.defined()) return train::forward(model, batch);
  return forward(inference, train::input_of(model, batch));
}

at::Tensor forward(const train::Inference& inference, const models::ModelInput& input) {
  const auto pass = [&](const at::Tensor& tensor) {
    const nn::SamplesApartScope samples_apart;
    return inference.model->forward(input.with_tensor(tensor));
  };
  if (input.has_patches() || input.is_packed()) return pass(input.tensor());
  const auto [device, dtype] = inference.compute;
  const auto& images = input.images();
  // Of channels with names a pass is not the same function each time.
  return input.channels.empty() ? inference.recorded->run(images.to(device), dtype, pass)
                                : pass(images.to(device, dtype));
}

at::Tensor pooled_features(const train::Inference& inference, const train::TensorBatch& batch) {
  const auto& model = *inference.model;
  return model.pooled_features(train::input_of(model, batch));
}

at::Tensor scores_of(const train::Inference& inference, const train::TensorBatch& batch) {
  const auto logits = forward(inference, batch).to(at::kCPU, at::kFloat);
  if (logits.dim() != 2)
    fail<ConfigError>("the model gives no logits: its pooling is ''; give images as a tensor file");
  return logits.softmax(1);
}

train::SlidingWindowConfig sliding_window_of(const train::Inference& inference) {
  const train::SegmentationConfig* task = nullptr;
  if (inference.config) task = inference.config->task.get_if<train::SegmentationConfig>();
  return task != nullptr ? task->sliding_window : train::SlidingWindowConfig();
}

std::vector<Outcome<at::Tensor>> in_passes(const std::shared_ptr<const data::Dataset>& samples,
                                           std::span<const int64_t> indices,
                                           const train::Inference& inference, const Pass& pass) {
  std::vector<Outcome<at::Tensor>> outcomes(indices.size());
  fill_in_passes(samples, indices, inference, pass, outcomes);
  return outcomes;
}

std::vector<Outcome<at::Tensor>> in_batches(const std::vector<OpenInput>& inputs,
                                            const train::Inference& inference, const Pass& pass) {
  std::vector<Outcome<at::Tensor>> outcomes(inputs.size());
  for (size_t first = 0; first < inputs.size();) {
    if (inputs[first].error) {
      outcomes[first].error = inputs[first].error;
      ++first;
      continue;
    }
    const auto count = run_length(inputs, first);
    const auto own = std::span(outcomes).subspan(first, count);
    if (inputs[first].samples && !is_ready_row(inputs[first])) {
      std::vector<int64_t> indices;
      for (size_t i = first; i < first + count; ++i) indices.push_back(inputs[i].index);
      fill_in_passes(inputs[first].samples, indices, inference, pass, own);
    } else {
      fill_in_passes(std::span(inputs).subspan(first, count), inference, pass, own);
    }
    first += count;
  }
  return outcomes;
}

}  // namespace fovea::inference
