// B batch, N tokens, D width of the tokens, F hidden features of the MLP.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <optional>

#include "fovea/core/error.h"
#include "fovea/nn/block.h"

namespace fovea::nn {

ParallelScalingBlockImpl::ParallelScalingBlockImpl(const BlockOptions& options, at::Device device)
    : core_(*this, options.attention),
      mlp_(options.mlp),
      drop_path_{options.drop_path_rate, options.drop_path_skip} {
  FOVEA_CHECK(mlp_.kind == MlpKind::kMlp && !mlp_.scale_norm && !options.attention.scale_norm,
              "a parallel block with a gated MLP or norms in front of its outputs; expected an MLP "
              "and none");
  declare_drop("mlp_drop", DropOf::kHidden);
  const auto dim = options.attention.dim, hidden = mlp_.hidden_dim;
  const bool has_bias = options.attention.qkv_bias, has_out_bias = options.attention.proj_bias;
  if (!has_bias) {
    mlp_bias_ = register_parameter(
        "mlp_bias", at::empty({hidden}, at::TensorOptions().dtype(at::kFloat).device(device)));
  }
  core_.register_lambdas(device);
  in_norm_ = register_module("in_norm", Norm(dim, options.norm, device));
  in_proj_ = register_module("in_proj", Linear(dim, hidden + 3 * dim, has_bias, device));
  core_.register_query_norms(device);
  core_.register_sub_norm(device);
  if (core_.is_differential()) {
    out_proj_ = register_module("out_proj", Linear(dim + hidden, dim, has_out_bias, device));
  } else {
    attn_out_proj_ = register_module("attn_out_proj", Linear(dim, dim, has_out_bias, device));
    mlp_out_proj_ = register_module("mlp_out_proj", Linear(hidden, dim, has_out_bias, device));
  }
  if (options.has_layer_scale) ls_ = register_module("ls", LayerScale(dim, device));
}

at::Tensor ParallelScalingBlockImpl::forward(const at::Tensor& x, const at::Tensor& key_mask,
                                             const at::Tensor& offsets,
                                             int64_t /*num_read*/) const {
  return run(
      [this](const at::Tensor& tokens, const at::Tensor& mask, const at::Tensor& starts) {
        return add_branch(*this, "drop_path", drop_path_, {tokens, mask}, ls_,
                          [&](const std::vector<at::Tensor>& in, const at::Tensor& residual) {
                            return branch(in[0], in[1], starts, residual);
                          });
      },
      x, key_mask, offsets);
}

// x: [B, N, D] -> [B, N, D], plus the residual where there is one.
at::Tensor ParallelScalingBlockImpl::branch(const at::Tensor& x, const at::Tensor& key_mask,
                                            const at::Tensor& starts,
                                            const at::Tensor& residual) const {
  const auto y = in_proj_(in_norm_->for_linear(x));  // [B, N, F + 3 D]; a part of both under tp
  const auto hidden = y.size(-1) * mlp_.hidden_dim / (mlp_.hidden_dim + 3 * mlp_.dim);
  const auto parts = y.split_with_sizes({hidden, y.size(-1) - hidden}, -1);
  const auto attended = core_.forward(parts[1].contiguous(), key_mask, starts, 0);  // [B, N, D]
  const auto given = mlp_bias_.defined() ? parts[0] + mlp_bias_.to(parts[0].scalar_type())
                                         : parts[0].contiguous();  // [B, N, F]
  if (!out_proj_) return mlp_out(given, attn_out_proj_(attended, std::nullopt, residual));
  return out_proj_(at::cat({attended, activated(given)}, -1), std::nullopt, residual);
}

at::Tensor ParallelScalingBlockImpl::activated(const at::Tensor& hidden) const {
  const auto y = kernels::activate(hidden, mlp_.activation);
  record("mlp_act", y);
  return dropout(y, mlp_.drop_rate, "mlp_drop");
}

// hidden: [B, N, F], before the activation -> [B, N, D].
at::Tensor ParallelScalingBlockImpl::mlp_out(const at::Tensor& hidden,
                                             const at::Tensor& residual) const {
  const bool drops = is_training() && mlp_.drop_rate > 0;
  if (drops || is_recorded("mlp_act")) {
    return mlp_out_proj_(activated(hidden), std::nullopt, residual);
  }
  return mlp_out_proj_(hidden, kernels::HiddenActivation{mlp_.activation}, residual);
}

}  // namespace fovea::nn
