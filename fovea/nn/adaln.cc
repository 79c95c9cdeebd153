// B batch, N tokens, D width of the tokens, E of the condition.
#include "fovea/nn/adaln.h"

#include "fovea/kernels/elementwise/activation.h"

namespace fovea::nn {
namespace {

NormOptions without_affine(NormOptions norm) {
  norm.has_affine = false;
  return norm;
}

}  // namespace

ModulationImpl::ModulationImpl(int64_t condition_dim, int64_t dim, int64_t count, at::Device device)
    : count_(count) {
  proj_ = register_module("proj", Linear(condition_dim, count * dim, /*has_bias=*/true, device));
}

at::Tensor ModulationImpl::forward(const at::Tensor& condition) const {
  return run(
      [this](const at::Tensor& given) {
        return proj_(kernels::activate(given, kernels::Activation::kSilu))
            .unflatten(-1, {count_, -1})  // [B, count, D]
            .transpose(0, 1)
            .unsqueeze(2);  // [count, B, 1, D]
      },
      condition);
}

at::Tensor modulate(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale) {
  return x * (1 + scale) + shift;
}

ConditionedBlockImpl::ConditionedBlockImpl(const ConditionedBlockOptions& options,
                                           at::Device device)
    : drop_path_{options.drop_path_rate, options.drop_path_skip} {
  const auto dim = options.attention.dim;
  const auto norm = without_affine(options.norm);
  norm1_ = register_module("norm1", Norm(dim, norm, device));
  attn_ = register_module("attn", Attention(options.attention, device));
  norm2_ = register_module("norm2", Norm(dim, norm, device));
  mlp_ = register_module("mlp", Mlp(options.mlp, device));
  modulation_ =
      register_module("modulation", Modulation(options.condition_dim, dim, /*count=*/6, device));
}

at::Tensor ConditionedBlockImpl::forward(const at::Tensor& x, const at::Tensor& condition,
                                         const at::Tensor& key_mask) const {
  return run(
      [this](const at::Tensor& tokens, const at::Tensor& given, const at::Tensor& mask) {
        const auto m = modulation_(given).unbind(0);  // six of [B, 1, D]
        using Tensors = std::vector<at::Tensor>;
        const auto y = add_branch(*this, "drop_path1", drop_path_, {tokens, m[0], m[1], m[2], mask},
                                  nullptr, [this](const Tensors& in, const at::Tensor& residual) {
                                    const auto branch =
                                        attn_(modulate(norm1_(in[0]), in[1], in[2]), in[4]);
                                    return onto(residual, in[3] * branch);
                                  });  // [B, N, D]
        return add_branch(*this, "drop_path2", drop_path_, {y, m[3], m[4], m[5]}, nullptr,
                          [this](const Tensors& in, const at::Tensor& residual) {
                            const auto branch = mlp_(modulate(norm2_(in[0]), in[1], in[2]));
                            return onto(residual, in[3] * branch);
                          });  // [B, N, D]
      },
      x, condition, key_mask);
}

}  // namespace fovea::nn
