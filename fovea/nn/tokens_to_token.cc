// B batch, C channels, N tokens, E width of the tokens that come in, T token_dim, M random
// features.
#include "fovea/nn/tokens_to_token.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/ones_like.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/linear/batched_product.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/nn/init.h"

namespace fovea::nn {
namespace {

NormOptions token_norm(const TokenAttentionOptions& options) {
  return {NormKind::kLayerNorm, options.norm_eps};
}

}  // namespace

at::Tensor soft_split(const at::Tensor& images, const SoftSplit& split) {
  const auto p = split.padding;
  const auto padded = p > 0 ? at::constant_pad_nd(images, {p, p, p, p}) : images;
  const auto windows = padded.unfold(2, split.kernel, split.stride)
                           .unfold(3, split.kernel, split.stride);  // [B, C, rows, columns, k, k]
  const auto num_tokens = windows.size(2) * windows.size(3);
  return windows.permute({0, 2, 3, 1, 4, 5})
      .reshape({images.size(0), num_tokens, images.size(1) * split.kernel * split.kernel});
}

TokenAttentionKind token_attention_from_name(const std::string& name) {
  if (name == "performer") return TokenAttentionKind::kPerformer;
  if (name == "transformer") return TokenAttentionKind::kTransformer;
  fail<ConfigError>("token_attention '{}' is unknown; expected performer or transformer", name);
}

TokenSoftmaxAttentionImpl::TokenSoftmaxAttentionImpl(const TokenAttentionOptions& options,
                                                     at::Device device)
    : options_(options) {
  const auto dim = options.token_dim;
  qkv_ = register_module("qkv", Linear(options.in_dim, 3 * dim, /*has_bias=*/false, device));
  proj_ = register_module("proj", Linear(dim, dim, /*has_bias=*/true, device));
}

at::Tensor TokenSoftmaxAttentionImpl::forward(const kernels::LinearInput& x) const {
  return run([&] {
    const auto qkv = qkv_(x);                            // [B, N, 3T]
    const auto values = qkv.chunk(3, /*dim=*/-1).at(2);  // [B, N, T]
    // The scale is that of the width that comes in, as upstream has it.
    const double scale = 1.0 / std::sqrt(static_cast<double>(options_.in_dim));
    const auto y = proj_(kernels::self_attention(qkv, /*num_heads=*/1, scale));  // [B, N, T]
    return values + dropout(y, options_.drop_rate, "proj_drop");
  });
}

TokenTransformerImpl::TokenTransformerImpl(const TokenAttentionOptions& options,
                                           at::Device device) {
  const auto norm = token_norm(options);
  norm1_ = register_module("norm1", Norm(options.in_dim, norm, device));
  attn_ = register_module("attn", TokenSoftmaxAttention(options, device));
  norm2_ = register_module("norm2", Norm(options.token_dim, norm, device));
  mlp_ = register_module("mlp", Mlp(MlpOptions{.dim = options.token_dim,
                                               .hidden_dim = options.token_dim,
                                               .drop_rate = options.drop_rate},
                                    device));
}

at::Tensor TokenTransformerImpl::forward(const at::Tensor& x) const {
  return run([&] {
    const auto y = attn_(norm1_->for_linear(x));  // [B, N, T]
    const auto normed = norm2_->for_linear(y);
    return mlp_(normed, normed.skip_for(y, y));
  });
}

TokenPerformerImpl::TokenPerformerImpl(const TokenAttentionOptions& options, at::Device device)
    : options_(options) {
  const auto dim = options.token_dim;
  const auto norm = token_norm(options);
  const auto tensor_options = at::TensorOptions().dtype(at::kFloat).device(device);
  w_ = register_parameter("w", at::empty({dim / 2, dim}, tensor_options), /*requires_grad=*/false);
  kqv_ = register_module("kqv", Linear(options.in_dim, 3 * dim, /*has_bias=*/true, device));
  proj_ = register_module("proj", Linear(dim, dim, /*has_bias=*/true, device));
  norm1_ = register_module("norm1", Norm(options.in_dim, norm, device));
  norm2_ = register_module("norm2", Norm(dim, norm, device));
  // Upstream's Sequential: 1 is the activation, 3 the dropout.
  const auto mlp = register_module("mlp", std::make_shared<torch::nn::Module>());
  fc1_ = mlp->register_module("0", Linear(dim, dim, /*has_bias=*/true, device));
  fc2_ = mlp->register_module("2", Linear(dim, dim, /*has_bias=*/true, device));
}

at::Tensor TokenPerformerImpl::forward(const at::Tensor& x) const {
  return run([&] {
    const auto y = attend(norm1_->for_linear(x));  // [B, N, T]
    return y + mix(norm2_->for_linear(y));
  });
}

// x: [B, N, T] -> [B, N, M]: features whose products estimate exp(x y).
at::Tensor TokenPerformerImpl::features(const at::Tensor& x) const {
  const auto half_square = x.square().sum(-1, /*keepdim=*/true) / 2;  // [B, N, 1]
  return at::exp(kernels::linear(x, w_, {}) - half_square) /
         std::sqrt(static_cast<double>(w_.size(0)));
}

// x: [B, N, E] -> [B, N, T].
at::Tensor TokenPerformerImpl::attend(const kernels::LinearInput& x) const {
  constexpr double kEps = 1e-8;
  const auto kqv = kqv_(x).chunk(3, /*dim=*/-1);  // [B, N, T] each
  const auto kind = x.x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto k = features(kqv[0].to(kind)), q = features(kqv[1].to(kind));  // [B, N, M]
  // A value of one in front of the others gives the sum that the result is divided by.
  const auto v = kqv[2].to(kind);
  const auto values = at::cat({at::ones_like(v.narrow(-1, 0, 1)), v}, -1);  // [B, N, 1 + T]
  const auto sums =
      kernels::batched_product(values.transpose(1, 2), k.transpose(1, 2));  // [B, 1 + T, M]
  const auto mixed = kernels::batched_product(q, sums);                     // [B, N, 1 + T]
  const auto y = mixed.narrow(-1, 1, v.size(-1)) / (mixed.narrow(-1, 0, 1) + kEps);
  return kqv[2] + dropout(proj_(y.to(x.x.scalar_type())), options_.drop_rate, "dp");
}

// The feed-forward part. x: [B, N, T] -> [B, N, T].
at::Tensor TokenPerformerImpl::mix(const kernels::LinearInput& x) const {
  const auto hidden = fc1_(x);
  if (is_recorded("mlp.1")) record("mlp.1", kernels::activate(hidden, kernels::Activation::kGelu));
  const auto y = dropout(fc2_(hidden, kernels::HiddenActivation{kernels::Activation::kGelu}),
                         options_.drop_rate, "mlp.3");
  record("mlp", y);
  return y;
}

at::Tensor orthogonal_features(int64_t num_features, int64_t dim, const std::string& name,
                               uint64_t seed) {
  FOVEA_CHECK(num_features <= dim, "{} orthogonal features of width {}; expected at most {}",
              num_features, dim, dim);
  auto rows = at::empty({num_features, dim}, at::kFloat);
  initialize(rows, name, seed, {InitRule::normal(1.0)});
  // Gram and Schmidt, twice, in float64 and by plain loops: the same on every machine.
  std::vector<double> values(rows.data_ptr<float>(), rows.data_ptr<float>() + rows.numel());
  const auto dot = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t j = 0; j < dim; ++j) sum += values[a * dim + j] * values[b * dim + j];
    return sum;
  };
  for (int64_t i = 0; i < num_features; ++i) {
    for (int64_t before = 0; before < 2 * i; ++before) {
      const double share = dot(i, before % i);
      for (int64_t j = 0; j < dim; ++j) values[i * dim + j] -= share * values[before % i * dim + j];
    }
    const double length = std::sqrt(dot(i, i));
    for (int64_t j = 0; j < dim; ++j) values[i * dim + j] /= length;
  }
  const double scale = std::sqrt(static_cast<double>(num_features));
  for (size_t i = 0; i < values.size(); ++i) {
    rows.data_ptr<float>()[i] = static_cast<float>(values[i] * scale);
  }
  return rows;
}

TokensToTokenImpl::TokensToTokenImpl(const TokensToTokenOptions& options, at::Device device)
    : options_(options) {
  const auto window = [](const SoftSplit& split) { return split.kernel * split.kernel; };
  int64_t width = options.in_chans;
  for (size_t i = 0; i < 2; ++i) {
    const TokenAttentionOptions attention{.in_dim = width * window(options.splits[i]),
                                          .token_dim = options.token_dim,
                                          .drop_rate = options.drop_rate,
                                          .norm_eps = options.norm_eps};
    const auto name = "attention" + std::to_string(i + 1);
    if (options.attention == TokenAttentionKind::kPerformer) {
      performers_.push_back(register_module(name, TokenPerformer(attention, device)));
    } else {
      transformers_.push_back(register_module(name, TokenTransformer(attention, device)));
    }
    width = options.token_dim;
  }
  project_ = register_module(
      "project", Linear(width * window(options.splits[2]), options.dim, /*has_bias=*/true, device));
}

std::vector<int64_t> TokensToTokenImpl::grid_size(at::IntArrayRef img_size) const {
  std::vector<int64_t> grid(img_size.begin(), img_size.end());
  for (auto& side : grid) {
    for (const auto& split : options_.splits) side = split.num_windows(side);
  }
  return grid;
}

at::Tensor TokensToTokenImpl::attend(size_t i, const at::Tensor& tokens) const {
  return performers_.empty() ? transformers_[i](tokens) : performers_[i](tokens);
}

at::Tensor TokensToTokenImpl::forward(const at::Tensor& images) const {
  return run([&] {
    auto x = images;  // [B, C, H, W]
    for (size_t i = 0; i < 2; ++i) {
      const auto& split = options_.splits[i];
      const auto height = split.num_windows(x.size(2)), width = split.num_windows(x.size(3));
      x = attend(i, soft_split(x, split))  // [B, height * width, T]
              .unflatten(1, at::IntArrayRef{height, width})
              .permute({0, 3, 1, 2});  // [B, T, height, width]
    }
    return project_(soft_split(x, options_.splits[2]));  // [B, N, D]
  });
}

}  // namespace fovea::nn
