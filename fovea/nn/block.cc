#include "fovea/nn/block.h"

namespace fovea::nn {

BlockImpl::BlockImpl(const BlockOptions& options, at::Device device)
    : drop_path_{options.drop_path_rate, options.drop_path_skip} {
  const auto dim = options.attention.dim;
  norm1_ = register_module("norm1", Norm(dim, options.norm, device));
  attn_ = register_module("attn", Attention(options.attention, device));
  if (options.has_layer_scale) ls1_ = register_module("ls1", LayerScale(dim, device));
  norm2_ = register_module("norm2", Norm(dim, options.norm, device));
  mlp_ = register_module("mlp", Mlp(options.mlp, device));
  if (options.has_layer_scale) ls2_ = register_module("ls2", LayerScale(dim, device));
}

at::Tensor BlockImpl::forward(const at::Tensor& x, const at::Tensor& key_mask,
                              const at::Tensor& offsets) {
  return run(
      [this](const at::Tensor& tokens, const at::Tensor& mask, const at::Tensor& starts) {
        using Tensors = std::vector<at::Tensor>;
        const auto y = add_branch(*this, "drop_path1", drop_path_, {tokens, mask}, ls1_,
                                  [&](const Tensors& in, const at::Tensor& residual) {
                                    return attn_(norm1_(in[0]), in[1], starts, residual);
                                  });
        return add_branch(*this, "drop_path2", drop_path_, {y}, ls2_,
                          [this](const Tensors& in, const at::Tensor& residual) {
                            return mlp_(norm2_(in[0]), residual);
                          });  // [B, N, D]
      },
      x, key_mask, offsets);
}

std::vector<double> drop_path_rates(double rate, int64_t depth) {
  std::vector<double> rates(static_cast<size_t>(depth), 0.0);
  for (int64_t i = 1; i < depth; ++i) {
    rates[i] = rate * static_cast<double>(i) / static_cast<double>(depth - 1);
  }
  return rates;
}

}  // namespace fovea::nn
