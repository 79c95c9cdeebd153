// B batch, N tokens, D embed_dim, H heads.
#include "fovea/models/summary.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/kernels/meta_kernels.h"
#include "fovea/models/sap.h"
#include "fovea/nn/attention.h"
#include "fovea/nn/attention_pool.h"
#include "fovea/nn/conv.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/linear.h"
#include "fovea/nn/norm.h"
#include "fovea/nn/patch_embed.h"
#include "fovea/nn/tokens_to_token.h"
#include "fovea/nn/variable_embed.h"

namespace fovea::models {
namespace {

constexpr int64_t kNormFlops = 5;  // per element: mean, variance, scale; as timm counts

// Shapes that came up in the forward pass, by path.
class Outputs {
 public:
  explicit Outputs(const std::vector<std::pair<std::string, at::Tensor>>& recorded) {
    for (const auto& [path, tensor] : recorded) shapes_[path] = tensor.sizes().vec();
  }
  std::vector<int64_t> shape(const std::string& path) const {
    const auto found = shapes_.find(path);
    return found == shapes_.end() ? std::vector<int64_t>{} : found->second;
  }
  int64_t numel(const std::string& path) const {
    const auto found = shapes_.find(path);
    return found == shapes_.end() ? 0 : c10::multiply_integers(found->second);
  }
  // Rows of a tensor [..., features]: tokens of the sample.
  int64_t rows(const std::string& path) const {
    const auto found = shapes_.find(path);
    return found == shapes_.end() ? 0 : numel(path) / found->second.back();
  }

 private:
  std::map<std::string, std::vector<int64_t>> shapes_;
};

// "fovea::nn::LinearImpl" -> "Linear".
std::string kind_of(const torch::nn::Module& module) {
  std::string name = module.name();
  name = name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name == "Module" ? "group" : name;
}

// Matrix products of the module itself, without those of the modules below it.
int64_t own_product_flops(const torch::nn::Module& module, const std::string& path,
                          const Outputs& outputs) {
  if (const auto* linear = dynamic_cast<const nn::LinearImpl*>(&module)) {
    return 2 * outputs.rows(path) * linear->weight.numel();
  }
  if (dynamic_cast<const nn::PatchEmbedImpl*>(&module)) {
    return 2 * outputs.rows(path) * module.named_parameters()["proj.weight"].numel();
  }
  if (const auto* conv = dynamic_cast<const nn::ConvImpl*>(&module)) {
    // Every weight at each place of the output; of a transposed one at each place of the input.
    const auto& options = conv->options();
    const auto places = outputs.numel(path) / options.out_chans;
    const auto kernel = c10::multiply_integers(options.kernel_size);
    return 2 * places * options.in_chans * options.out_chans * (options.is_transposed ? 1 : kernel);
  }
  if (const auto* performer = dynamic_cast<const nn::TokenPerformerImpl*>(&module)) {
    // Features of keys and queries, their sums over the tokens, and those mixed for each token.
    const auto features = performer->num_features(),
               sums = outputs.numel(path) + outputs.rows(path);
    return 2 * features * (2 * outputs.numel(path) + 2 * sums);
  }
  const auto* attention = dynamic_cast<const nn::HasAttention*>(&module);
  if (attention || dynamic_cast<const nn::TokenSoftmaxAttentionImpl*>(&module)) {
    // Queries are those that an output is asked of.
    const auto queries = outputs.rows(path),
               tokens = std::max(queries, outputs.rows(path + ".qkv"));
    const auto width = outputs.numel(path) / std::max<int64_t>(1, queries);
    const auto maps = attention ? attention->attention_core().maps_per_head() : 1;
    return 2 * 2 * maps * queries * tokens * width;  // q k^T and probabilities times v
  }
  if (dynamic_cast<const nn::AttentionPoolImpl*>(&module)) {
    return 2 * 2 * outputs.rows(path + ".kv") * outputs.numel(path);  // one query
  }
  if (const auto* head = dynamic_cast<const SapHeadImpl*>(&module)) {
    return 2 * head->embed_dim() * outputs.numel(path);  // making one map of two is a batch's
  }
  if (dynamic_cast<const nn::VariableAggregationImpl*>(&module)) {
    return 2 * outputs.numel(path + ".kv");  // one query: D products with k, D with v
  }
  return 0;
}

// Elements of the norm's output. Norms over heads are recorded as [B, H, N, K].
int64_t own_norm_flops(const torch::nn::Module& module, const std::string& path,
                       const Outputs& outputs) {
  return dynamic_cast<const nn::NormImpl*>(&module) ? kNormFlops * outputs.numel(path) : 0;
}

bool is_below(const std::string& path, const std::string& root) {
  return root.empty() || path == root || path.starts_with(root + ".");
}

// The parameters of the model itself, such as cls_token, as layers without FLOPs.
std::vector<LayerSummary> own_parameters(const Model& model) {
  std::vector<LayerSummary> layers;
  for (const auto& item : model.named_parameters(/*recurse=*/false)) {
    layers.push_back({.path = item.key(),
                      .kind = "parameter",
                      .output_shape = item.value().sizes().vec(),
                      .num_parameters = item.value().numel()});
  }
  return layers;
}

std::vector<LayerSummary> list_layers(const Model& model, const Outputs& outputs) {
  const auto modules = model.named_modules();
  std::vector<LayerSummary> layers;
  for (const auto& item : modules) {
    LayerSummary layer{.path = item.key(),
                       .kind = kind_of(*item.value()),
                       .output_shape = outputs.shape(item.key())};
    for (const auto& parameter : item.value()->parameters()) {
      layer.num_parameters += parameter.numel();
    }
    for (const auto& below : modules) {
      if (!is_below(below.key(), item.key())) continue;
      layer.product_flops += own_product_flops(*below.value(), below.key(), outputs);
      layer.norm_flops += own_norm_flops(*below.value(), below.key(), outputs);
    }
    layers.push_back(std::move(layer));
    if (item.key().empty()) {
      const auto own = own_parameters(model);
      layers.insert(layers.end(), own.begin(), own.end());
    }
  }
  return layers;
}

// Note [Saved activations]. What the backward pass needs is estimated by the outputs of all layers,
// each storage once: where a layer's output is not itself needed (a projection before a residual
// addition), one of the same size is that no layer records (the attended values, the sum). What is
// recorded beside layers' outputs, activated hidden features, is not kept but computed again.
void count_activations(const nn::RecordScope& recorder, const Model& model, ModelSummary& summary) {
  std::set<const c10::StorageImpl*> seen;
  const auto layers = model.named_modules();
  for (const auto& [path, tensor] : recorder.intermediates()) {
    if (!layers.contains(path)) continue;
    if (!seen.insert(tensor.storage().unsafeGetStorageImpl()).second) continue;
    summary.saved_activations += tensor.numel();
    summary.largest_activation = std::max(summary.largest_activation, tensor.numel());
  }
}

int64_t count_attention_rows(const Model& model, const Outputs& outputs) {
  int64_t rows = 0;
  for (const auto& item : model.named_modules()) {
    if (const auto* attends = dynamic_cast<const nn::HasAttention*>(item.value().get())) {
      const auto& core = attends->attention_core();
      rows += outputs.rows(item.key()) * core.num_heads() * core.maps_per_head();
    }
    const bool is_token_attention =
        dynamic_cast<const nn::TokenSoftmaxAttentionImpl*>(item.value().get()) != nullptr;
    if (is_token_attention) rows += outputs.rows(item.key());  // one head
  }
  return rows;
}

}  // namespace

int64_t LayerSummary::depth() const {
  return path.empty() ? 0 : 1 + std::count(path.begin(), path.end(), '.');
}

double ModelSummary::gmacs() const {
  return (static_cast<double>(product_flops) / 2 + static_cast<double>(norm_flops)) / 1e9;
}

ModelSummary summarize(Model& model, const std::vector<int64_t>& input_shape,
                       const std::function<void()>& forward, bool is_training,
                       nn::RecordedTokens tokens) {
  ModelSummary summary;
  summary.input_shape = input_shape;
  const bool was_training = model.is_training();
  model.train(is_training);
  {
    const at::NoGradGuard no_grad;
    const nn::RecordScope recorder({}, tokens);
    forward();
    const Outputs outputs(recorder.intermediates());
    summary.layers = list_layers(model, outputs);
    summary.attention_rows = count_attention_rows(model, outputs);
    count_activations(recorder, model, summary);
  }
  model.train(was_training);
  for (const auto& parameter : model.parameters()) {
    summary.num_parameters += parameter.numel();
    if (parameter.requires_grad()) summary.num_trainable += parameter.numel();
  }
  summary.product_flops = summary.layers.front().product_flops;
  summary.norm_flops = summary.layers.front().norm_flops;
  return summary;
}

ModelSummary summarize(Model& model, const std::vector<int64_t>& img_size) {
  const auto spec = model.input_spec();
  std::vector<int64_t> input_shape = {1, spec.in_chans};
  const auto& sides = img_size.empty() ? spec.img_size : img_size;
  input_shape.insert(input_shape.end(), sides.begin(), sides.end());
  const auto parameters = model.parameters();
  FOVEA_CHECK(!parameters.empty(), "a model without parameters has nothing to summarize");
  const auto& options = parameters.front().options();
  std::optional<kernels::MetaKernels> meta;
  if (parameters.front().is_meta()) meta.emplace();
  return summarize(model, input_shape, [&] { model.forward(at::empty(input_shape, options)); });
}

MemoryEstimate training_memory(const ModelSummary& summary, const MemoryOptions& options) {
  MemoryEstimate memory;
  memory.weights = 4 * summary.num_parameters;
  memory.gradients = 4 * summary.num_trainable;
  memory.optimizer = 4 * options.optimizer_states * summary.num_trainable;
  memory.average = options.has_average ? 4 * summary.num_trainable : 0;
  const int64_t of_sample =
      options.activation_bytes * summary.saved_activations + 4 * summary.attention_rows;
  memory.activations = options.batch_size * of_sample;
  // Layers in bfloat16 keep the weights they were computed with.
  if (options.activation_bytes < 4) {
    memory.activations += options.activation_bytes * summary.num_parameters;
  }
  return memory;
}

// At the peak a layer's input, its output and the residual are alive.
MemoryEstimate inference_memory(const ModelSummary& summary, const MemoryOptions& options) {
  MemoryEstimate memory;
  memory.weights = 4 * summary.num_parameters;
  memory.activations =
      options.batch_size * options.activation_bytes * 3 * summary.largest_activation;
  return memory;
}

}  // namespace fovea::models
