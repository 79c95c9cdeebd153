#include "fovea/nn/block.h"

namespace fovea::nn {

BlockImpl::BlockImpl(const BlockOptions& options, at::Device device)
    : drop_path_rate_(options.drop_path_rate) {
  const auto dim = options.attention.dim;
  norm1_ = register_module("norm1", Norm(dim, options.norm, device));
  attn_ = register_module("attn", Attention(options.attention, device));
  if (options.has_layer_scale) ls1_ = register_module("ls1", LayerScale(dim, device));
  norm2_ = register_module("norm2", Norm(dim, options.norm, device));
  mlp_ = register_module("mlp", Mlp(options.mlp, device));
  if (options.has_layer_scale) ls2_ = register_module("ls2", LayerScale(dim, device));
}

at::Tensor BlockImpl::forward(const at::Tensor& x, const at::Tensor& key_mask) {
  return run(
      [this](const at::Tensor& tokens, const at::Tensor& mask) {
        auto attended = attn_(norm1_(tokens), mask);
        if (ls1_) attended = ls1_(attended);
        const auto y = tokens + drop_path(attended, drop_path_rate_, "drop_path1");  // [B, N, D]
        auto mixed = mlp_(norm2_(y));
        if (ls2_) mixed = ls2_(mixed);
        return y + drop_path(mixed, drop_path_rate_, "drop_path2");  // [B, N, D]
      },
      x, key_mask);
}

std::vector<double> drop_path_rates(double rate, int64_t depth) {
  std::vector<double> rates(static_cast<size_t>(depth), 0.0);
  for (int64_t i = 1; i < depth; ++i) {
    rates[i] = rate * static_cast<double>(i) / static_cast<double>(depth - 1);
  }
  return rates;
}

}  // namespace fovea::nn
