// B batch, V variables of a batch, L patches, D width, H heads, K head_dim.
#include "fovea/nn/variable_embed.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/nn/cross_attention.h"

namespace fovea::nn {

at::Tensor take(const at::Tensor& x, int64_t dim, at::IntArrayRef entries) {
  std::vector<at::Tensor> parts;
  bool is_whole = x.size(dim) == static_cast<int64_t>(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    is_whole = is_whole && entries[i] == static_cast<int64_t>(i);
    parts.push_back(x.narrow(dim, entries[i], 1));
  }
  if (is_whole) return x;
  return parts.size() == 1 ? parts[0] : at::cat(parts, dim);
}

VariableAggregationImpl::VariableAggregationImpl(int64_t dim, int64_t num_heads,
                                                 at::Device device) {
  FOVEA_CHECK(num_heads > 0 && dim % num_heads == 0,
              "variable aggregation of width {} with {} heads; expected a width divisible by the "
              "heads",
              dim, num_heads);
  head_dim_ = dim / num_heads;
  q_ = register_module("q", Linear(dim, dim, /*has_bias=*/false, device));
  kv_ = register_module("kv", Linear(dim, 2 * dim, /*has_bias=*/false, device));
  proj_ = register_module("proj", Linear(dim, dim, /*has_bias=*/true, device));
}

at::Tensor VariableAggregationImpl::forward(const at::Tensor& x, const at::Tensor& query) const {
  return run([&] {
    const auto heads = cross_heads(query, x.flatten(0, 1), q_, kv_, head_dim_);
    const auto scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
    const auto attended = kernels::attention(heads.q, heads.k, heads.v, scale);  // [B * L, H, 1, K]
    return proj_(attended.reshape({x.size(0), x.size(1), -1}));                  // [B, L, D]
  });
}

VariableEmbedImpl::VariableEmbedImpl(const VariableEmbedOptions& options,
                                     const PatchEmbedOptions& grid, at::Device device)
    : options_(options) {
  FOVEA_CHECK(grid.in_chans == 1, "tokenisers of {} channels; expected 1 for each variable",
              grid.in_chans);
  const auto list = register_module("token_embeds", std::make_shared<torch::nn::Module>());
  const auto count = options.is_shared ? 1 : options.num_variables;
  for (int64_t i = 0; i < count; ++i) {
    grid_.push_back(list->register_module(std::to_string(i), PatchEmbed(grid, device)));
  }
  register_embeddings(device);
}

VariableEmbedImpl::VariableEmbedImpl(const VariableEmbedOptions& options, int64_t patch_values,
                                     bool has_norms, at::Device device)
    : options_(options) {
  const auto list = register_module("token_embeds", std::make_shared<torch::nn::Module>());
  const auto count = options.is_shared ? 1 : options.num_variables;
  for (int64_t i = 0; i < count; ++i) {
    adaptive_.push_back(list->register_module(
        std::to_string(i),
        AdaptivePatchEmbed(patch_values, /*in_chans=*/1, options.dim, has_norms, device)));
  }
  register_embeddings(device);
}

void VariableEmbedImpl::register_embeddings(at::Device device) {
  const auto tensors = at::TensorOptions().dtype(at::kFloat).device(device);
  var_embed_ = register_parameter("var_embed",
                                  at::empty({1, options_.num_variables, options_.dim}, tensors));
  if (!options_.is_aggregated || options_.num_variables == 1) return;
  var_query_ = register_parameter("var_query", at::empty({1, 1, options_.dim}, tensors));
  var_agg_ =
      register_module("var_agg", VariableAggregation(options_.dim, options_.num_heads, device));
}

std::vector<int64_t> VariableEmbedImpl::grid_size(at::IntArrayRef img_size) const {
  FOVEA_CHECK(!grid_.empty(), "adaptive patches have no grid");
  return grid_.front()->grid_size(img_size);
}

at::Tensor VariableEmbedImpl::tokenize(int64_t tokenizer, const at::Tensor& channel) const {
  const auto i = static_cast<size_t>(tokenizer);
  return grid_.empty() ? adaptive_[i](channel) : grid_[i](channel);
}

// -> [B, L, V, D]
at::Tensor VariableEmbedImpl::tokens_of(const at::Tensor& input, at::IntArrayRef variables) const {
  if (options_.is_shared) {  // channels as samples, in one pass
    const auto tokens = tokenize(0, input.flatten(0, 1).unsqueeze(1));  // [B * V, L, D]
    return tokens.unflatten(0, {input.size(0), input.size(1)}).transpose(1, 2);
  }
  std::vector<at::Tensor> tokens;  // V of [B, L, D]
  for (size_t i = 0; i < variables.size(); ++i) {
    tokens.push_back(tokenize(variables[i], input.narrow(1, static_cast<int64_t>(i), 1)));
  }
  return at::stack(tokens, 2);
}

at::Tensor VariableEmbedImpl::forward(const at::Tensor& input, at::IntArrayRef variables) const {
  const auto count = static_cast<int64_t>(variables.size());
  FOVEA_CHECK(input.dim() >= 4 && input.size(1) == count && count > 0,
              "input of shape [{}] for the variables [{}]; expected a channel for each",
              fmt::join(input.sizes(), ", "), fmt::join(variables, ", "));
  FOVEA_CHECK(var_agg_ || count == 1, "{} variables in a batch; without aggregation expected one",
              count);
  std::vector<int64_t> order(variables.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return variables[a] < variables[b]; });
  std::vector<int64_t> ascending;
  for (const auto i : order) ascending.push_back(variables[i]);
  return run([&] {
    auto x = tokens_of(take(input, 1, order), ascending);        // [B, L, V, D]
    x = x + take(var_embed_, 1, ascending).to(x.scalar_type());  // [1, V, D] to each
    return var_agg_ ? var_agg_(x, var_query_) : x.squeeze(2);    // [B, L, D]
  });
}

}  // namespace fovea::nn
