// B batch, F features of a time step, D width of its embedding.
#include "fovea/nn/timestep_embed.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>

#include "fovea/core/error.h"

namespace fovea::nn {

at::Tensor timestep_features(const at::Tensor& timesteps, int64_t width, TimestepLayout layout) {
  FOVEA_CHECK(timesteps.dim() == 1 && width > 0 && width % 2 == 0,
              "time steps of {} dims in {} features; expected one dim and an even number",
              timesteps.dim(), width);
  const auto options = at::TensorOptions().dtype(at::kDouble).device(timesteps.device());
  const auto bands =
      at::pow(10000.0, -at::arange(width / 2, options) / (static_cast<double>(width) / 2));
  const auto angles = timesteps.to(at::kDouble).unsqueeze(1) * bands;  // [B, F / 2]
  const auto features = layout == TimestepLayout::kInterleaved
                            ? at::stack({angles.sin(), angles.cos()}, -1).flatten(1)
                            : at::cat({angles.cos(), angles.sin()}, 1);  // [B, F]
  return features;
}

TimestepEmbedImpl::TimestepEmbedImpl(const TimestepEmbedOptions& options, at::Device device)
    : options_(options) {
  declare_drop("drop", DropOf::kHidden);
  fc1_ = register_module("fc1", Linear(options.width, options.dim, /*has_bias=*/true, device));
  fc2_ = register_module("fc2", Linear(options.dim, options.dim, /*has_bias=*/true, device));
}

at::Tensor TimestepEmbedImpl::forward(const at::Tensor& timesteps, at::ScalarType dtype) const {
  return embed(features(timesteps).to(dtype));
}

at::Tensor TimestepEmbedImpl::embed(const at::Tensor& features) const {
  return run([&] {
    const auto y = kernels::activate(fc1_(features), options_.activation);  // [B, D]
    return fc2_(dropout(y, options_.drop_rate, "drop"));
  });
}

}  // namespace fovea::nn
