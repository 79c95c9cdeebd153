// B batch, N tokens, D embed_dim.
#include "fovea/nn/attention.h"

#include <optional>

namespace fovea::nn {

AttentionImpl::AttentionImpl(const AttentionOptions& options, at::Device device)
    : core_(*this, options), proj_drop_rate_(options.proj_drop_rate) {
  declare_drop("proj_drop", DropOf::kTokens);
  core_.register_lambdas(device);
  qkv_ = register_module("qkv", Linear(options.dim, 3 * options.dim, options.qkv_bias, device));
  core_.register_query_norms(device);
  if (options.scale_norm) {
    norm_ = register_module("norm", Norm(options.dim, options.norm, device));
  }
  proj_ = register_module("proj", Linear(options.dim, options.dim, options.proj_bias, device));
  core_.register_sub_norm(device);
}

at::Tensor AttentionImpl::forward(const kernels::LinearInput& x, const at::Tensor& key_mask,
                                  const at::Tensor& offsets, const at::Tensor& residual,
                                  int64_t num_read) const {
  return run_onto(
      residual,
      [this, num_read](const kernels::LinearInput& tokens, const at::Tensor& mask,
                       const at::Tensor& starts, const at::Tensor& added) {
        auto attended = core_.read(tokens.x, qkv_, mask, starts, num_read);
        if (!attended.defined()) attended = core_.forward(qkv_(tokens), mask, starts, num_read);
        const auto y = norm_ ? norm_->for_linear(attended) : kernels::LinearInput(attended);
        const bool drops = is_training() && proj_drop_rate_ > 0;
        if (!drops) return proj_(y, std::nullopt, added);
        return onto(added, dropout(proj_(y), proj_drop_rate_, "proj_drop"));
      },
      x, key_mask, offsets);
}

}  // namespace fovea::nn
