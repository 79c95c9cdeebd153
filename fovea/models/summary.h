// What a model is made of and what it costs: the layer table, parameters, FLOPs, memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/nn/forward_context.h"

namespace fovea::models {

// Note [Counting]. FLOPs are of one sample's forward pass: 2 for each multiply-add of a matrix
// product (projections, patch embedding, both products of attention), 5 for each element of a norm
// with weights. Activations, softmax, residuals and biases are left out. `gmacs` is timm's figure:
// products counted as multiply-adds, norms as here. Training costs three times the forward pass,
// of the tokens that patch dropout leaves.

struct LayerSummary {
  std::string path;                   // "blocks.3.attn"; empty: the model itself
  std::string kind;                   // "Attention", "Linear", "parameter"
  std::vector<int64_t> output_shape;  // of one sample, [1, ...]; empty: has no output of its own
  int64_t num_parameters = 0;         // of the layer with all below it
  int64_t product_flops = 0;          // matrix products, with all below
  int64_t norm_flops = 0;             // norms, with all below
  int64_t depth() const;              // 0 the model, 1 "blocks", 2 "blocks.3", ...
};

struct ModelSummary {
  std::vector<LayerSummary> layers;  // the model first, then in the order of its modules
  std::vector<int64_t> input_shape;  // [1, C, ...]
  int64_t num_parameters = 0;
  int64_t num_trainable = 0;
  int64_t product_flops = 0;
  int64_t norm_flops = 0;
  // Numbers, not bytes, of one sample.
  int64_t saved_activations = 0;   // outputs that the backward pass needs
  int64_t largest_activation = 0;  // of one layer
  int64_t attention_rows = 0;      // float32 log-sum-exp values that attention keeps

  int64_t flops() const { return product_flops + norm_flops; }
  double gmacs() const;
};

// Bytes of one process on one device, without the libraries' own.
struct MemoryEstimate {
  int64_t weights = 0;    // float32 master weights
  int64_t gradients = 0;  // float32
  int64_t optimizer = 0;  // float32
  int64_t average = 0;    // of the weights, where one is kept
  int64_t activations = 0;
  int64_t total() const { return weights + gradients + optimizer + average + activations; }
};

struct MemoryOptions {
  int64_t batch_size = 1;        // samples of one forward pass
  int64_t activation_bytes = 4;  // of one number: 4 float32, 2 bfloat16
  int64_t optimizer_states = 2;  // float32 numbers a trained parameter: 2 adamw, 1 sgd
  bool has_average = false;
};
MemoryEstimate training_memory(const ModelSummary& summary, const MemoryOptions& options);
MemoryEstimate inference_memory(const ModelSummary& summary, const MemoryOptions& options);

// Runs one forward pass of a single sample. The model may be on the meta device, where that costs
// neither memory nor time. img_size: [H, W] or [D, H, W]; empty: the model's own.
ModelSummary summarize(Model& model, const std::vector<int64_t>& img_size = {});
// The same of a sample that `forward` makes and passes through the model, once. input_shape:
// [1, C, ...]. is_training: as in a training step, where patch dropout leaves tokens out; the
// caller holds an nn::StepScope then, and on the meta device kernels::MetaKernels. tokens: kMade:
// without those that nobody reads of the last block, which timm's figure has.
ModelSummary summarize(Model& model, const std::vector<int64_t>& input_shape,
                       const std::function<void()>& forward, bool is_training = false,
                       nn::RecordedTokens tokens = nn::RecordedTokens::kAll);

}  // namespace fovea::models
