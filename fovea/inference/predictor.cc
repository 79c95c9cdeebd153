#include "fovea/inference/predictor.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/parallel_for.h"
#include "fovea/inference/pass.h"
#include "fovea/inference/ready_input.h"
#include "fovea/nn/forward_context.h"

namespace fovea::inference {
namespace {

Kind kind_of(const train::Inference& inference) {
  const bool is_diffusion =
      inference.config && inference.config->task.get_if<train::DiffusionConfig>() != nullptr;
  if (is_diffusion && inference.model->as_denoiser() != nullptr) return Kind::kSamples;
  if (inference.model->as_segmenter() != nullptr) return Kind::kMasks;
  if (inference.model->as_autoencoder() != nullptr) return Kind::kReconstructions;
  return Kind::kClasses;
}

}  // namespace

const char* to_text(Kind kind) {
  switch (kind) {
    case Kind::kMasks:
      return "masks";
    case Kind::kReconstructions:
      return "reconstructions";
    case Kind::kSamples:
      return "samples";
    default:
      return "classes";
  }
}

Predictor::Predictor(const std::string& target, const train::InferenceOptions& options)
    : Predictor(train::load_inference(target, options)) {}

Predictor::Predictor(train::Inference inference)
    : loaded_(std::make_shared<const train::Inference>(std::move(inference))) {}

Kind Predictor::kind() const { return kind_of(*loaded_); }

void Predictor::expect(Kind kind) const {
  if (kind_of(*loaded_) == kind) return;
  fail<ConfigError>("{} of a model that gives {}; ask it for these", to_text(kind),
                    to_text(kind_of(*loaded_)));
}

Predictor::Loaded Predictor::loaded_for(const std::vector<Input>& inputs) const {
  const bool has_names = !inputs.empty() && !inputs.front().channels.empty();
  if (!has_names || inputs.front().channels == loaded_->channels) return loaded_;
  const auto& channels = inputs.front().channels;
  if (loaded_->model->variables().empty()) {
    fail<ConfigError>(
        "inputs with names of channels for a model without variables; leave the names out");
  }
  return std::make_shared<const train::Inference>(loaded_->with_channels(channels));
}

std::vector<Outcome<Input>> Predictor::prepared(const std::vector<Input>& inputs) const {
  const at::NoGradGuard no_grad;
  const auto loaded = loaded_for(inputs);
  const auto opened = open_inputs(inputs, *loaded);
  std::vector<Outcome<Input>> outcomes(inputs.size());
  const auto prepare_one = [&](int64_t place) {
    const auto i = static_cast<size_t>(place);
    try {
      const bool is_tensor = opened[i].tensor.defined();
      outcomes[i].value = is_tensor ? inputs[i]
                                    : Input{.content = make_ready(opened[i], *loaded),
                                            .channels = inputs[i].channels};
    } catch (const DataError& error) {
      outcomes[i].error = error;
    }
  };
  parallel_for(static_cast<int64_t>(inputs.size()), at::get_num_threads(), prepare_one);
  return outcomes;
}

std::vector<Outcome<at::Tensor>> Predictor::features(const std::vector<Input>& inputs) const {
  const at::NoGradGuard no_grad;
  const auto loaded = loaded_for(inputs);
  return in_batches(open_inputs(inputs, *loaded), *loaded, pooled_features);
}

Logits Predictor::logits(const at::Tensor& images, const std::vector<std::string>& wanted) const {
  const at::NoGradGuard no_grad;
  const bool all = wanted == std::vector<std::string>{"all"};
  std::optional<nn::RecordScope> recorder;
  if (!wanted.empty()) recorder.emplace(all ? std::vector<std::string>{} : wanted);
  Logits outputs;
  outputs.logits = forward(*loaded_, {images, loaded_->channels}).to(at::kCPU, at::kFloat);
  if (!recorder) return outputs;
  for (const auto& [name, tensor] : recorder->intermediates()) {
    outputs.intermediates.emplace_back(name, tensor.to(at::kCPU, at::kFloat));
  }
  return outputs;
}

}  // namespace fovea::inference
