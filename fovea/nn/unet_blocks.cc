#include "fovea/nn/unet_blocks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/leaky_relu.h>

namespace fovea::nn {
namespace {

constexpr double kNormEps = 1e-5;
constexpr double kNegativeSlope = 0.01;

Conv conv(const UnetBlockOptions& options, int64_t in_chans, int64_t kernel_size,
          at::Device device) {
  return Conv(ConvOptions{.in_chans = in_chans,
                          .out_chans = options.out_chans,
                          .kernel_size = std::vector<int64_t>(
                              static_cast<size_t>(options.spatial_dims), kernel_size)},
              device);
}

Conv upsampling(int64_t in_chans, int64_t out_chans, const std::vector<int64_t>& stride,
                at::Device device) {
  return Conv(ConvOptions{.in_chans = in_chans,
                          .out_chans = out_chans,
                          .kernel_size = stride,
                          .is_transposed = true},
              device);
}

at::Tensor instance_normed(const at::Tensor& x) {
  return at::instance_norm(x, {}, {}, {}, {}, /*use_input_stats=*/true, /*momentum=*/0.1, kNormEps,
                           /*cudnn_enabled=*/true);
}

at::Tensor leaky(const at::Tensor& x) { return at::leaky_relu(x, kNegativeSlope); }

}  // namespace

UnetBlockImpl::UnetBlockImpl(const UnetBlockOptions& options, at::Device device)
    : is_residual_(options.is_residual) {
  conv1_ = register_module("conv1", conv(options, options.in_chans, 3, device));
  conv2_ = register_module("conv2", conv(options, options.out_chans, 3, device));
  if (is_residual_ && options.in_chans != options.out_chans) {
    conv3_ = register_module("conv3", conv(options, options.in_chans, 1, device));
  }
}

at::Tensor UnetBlockImpl::forward(const at::Tensor& x) const {
  return run([&] {
    auto y = leaky(instance_normed(conv1_(x)));  // [B, out, sides]
    y = instance_normed(conv2_(y));
    if (is_residual_) y = y + (conv3_ ? instance_normed(conv3_(x)) : x);
    return leaky(y);
  });
}

UnetrBasicBlockImpl::UnetrBasicBlockImpl(const UnetBlockOptions& options, at::Device device) {
  layer_ = register_module("layer", UnetBlock(options, device));
}

at::Tensor UnetrBasicBlockImpl::forward(const at::Tensor& x) const {
  return run([&] { return layer_(x); });
}

UnetrUpBlockImpl::UnetrUpBlockImpl(const UnetBlockOptions& options,
                                   const std::vector<int64_t>& stride, at::Device device) {
  transp_conv_ = register_module("transp_conv",
                                 upsampling(options.in_chans, options.out_chans, stride, device));
  auto joined = options;
  joined.in_chans = 2 * options.out_chans;
  conv_block_ = register_module("conv_block", UnetBlock(joined, device));
}

at::Tensor UnetrUpBlockImpl::forward(const at::Tensor& x, const at::Tensor& skip) const {
  return run([&] {
    return conv_block_(at::cat({transp_conv_(x), skip}, 1));  // [B, 2 out, sides * stride] -> out
  });
}

UnetrPrUpBlockImpl::UnetrPrUpBlockImpl(const UnetBlockOptions& options,
                                       const std::vector<std::vector<int64_t>>& strides,
                                       bool has_conv_block, at::Device device) {
  const auto out = options.out_chans;
  transp_conv_init_ = register_module("transp_conv_init",
                                      upsampling(options.in_chans, out, strides.front(), device));
  auto same = options;
  same.in_chans = out;
  const auto list = register_module("blocks", std::make_shared<torch::nn::Module>());
  for (size_t i = 1; i < strides.size(); ++i) {
    const auto name = std::to_string(i - 1);
    if (!has_conv_block) {
      upsample_.push_back(list->register_module(name, upsampling(out, out, strides[i], device)));
      continue;
    }
    const auto pair = list->register_module(name, std::make_shared<torch::nn::Module>());
    upsample_.push_back(pair->register_module("0", upsampling(out, out, strides[i], device)));
    conv_blocks_.push_back(pair->register_module("1", UnetBlock(same, device)));
  }
}

at::Tensor UnetrPrUpBlockImpl::forward(const at::Tensor& x) const {
  return run([&] {
    auto y = transp_conv_init_(x);
    for (size_t i = 0; i < upsample_.size(); ++i) {
      y = upsample_[i](y);
      if (!conv_blocks_.empty()) y = conv_blocks_[i](y);
    }
    return y;
  });
}

UnetOutBlockImpl::UnetOutBlockImpl(const UnetBlockOptions& options, at::Device device) {
  ConvOptions pointwise{
      .in_chans = options.in_chans,
      .out_chans = options.out_chans,
      .kernel_size = std::vector<int64_t>(static_cast<size_t>(options.spatial_dims), 1),
      .has_bias = true};
  conv_ = register_module("conv", Conv(pointwise, device));
}

at::Tensor UnetOutBlockImpl::forward(const at::Tensor& x) const {
  return run([&] { return conv_(x); });
}

}  // namespace fovea::nn
