// The convolutional blocks of UNETR (Hatamizadeh et al. 2021, arXiv:2103.10504), with MONAI's names
// and numbers: 3 x 3 (x 3) convolutions without bias, instance norm without weights (eps 1e-5),
// leaky ReLU of slope 0.01. For images and volumes.
#pragma once

#include <vector>

#include "fovea/nn/conv.h"

namespace fovea::nn {

struct UnetBlockOptions {
  int64_t spatial_dims = 3;  // 2: images [B, C, H, W], 3: volumes [B, C, D, H, W]
  int64_t in_chans = 0;
  int64_t out_chans = 0;
  bool is_residual = true;
};

// Two convolutions, each normed. x: [B, in, sides] -> [B, out, sides]. MONAI's UnetResBlock
// (is_residual: the input is added before the last activation, through conv3 and a norm where the
// channels differ) and UnetBasicBlock.
class UnetBlockImpl : public UnitImpl {
 public:
  UnetBlockImpl(const UnetBlockOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;

 private:
  bool is_residual_;
  Conv conv1_ = nullptr;
  Conv conv2_ = nullptr;
  Conv conv3_ = nullptr;
};
using UnetBlock = UnitHolder<UnetBlockImpl>;

// A UnetBlock under the name `layer`: MONAI's UnetrBasicBlock.
class UnetrBasicBlockImpl : public UnitImpl {
 public:
  UnetrBasicBlockImpl(const UnetBlockOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;  // [B, in, sides] -> [B, out, sides]

 private:
  UnetBlock layer_ = nullptr;
};
using UnetrBasicBlock = UnitHolder<UnetrBasicBlockImpl>;

// Upsamples and joins what the encoder had at that size: MONAI's UnetrUpBlock.
class UnetrUpBlockImpl : public UnitImpl {
 public:
  // stride: by how much each side grows.
  UnetrUpBlockImpl(const UnetBlockOptions& options, const std::vector<int64_t>& stride,
                   at::Device device);

  // x: [B, in, sides], skip: [B, out, sides * stride] -> [B, out, sides * stride].
  at::Tensor forward(const at::Tensor& x, const at::Tensor& skip) const;

 private:
  Conv transp_conv_ = nullptr;
  UnetBlock conv_block_ = nullptr;
};
using UnetrUpBlock = UnitHolder<UnetrUpBlockImpl>;

// Brings a grid of tokens to a skip connection's size: MONAI's UnetrPrUpBlock.
class UnetrPrUpBlockImpl : public UnitImpl {
 public:
  // strides: of the first upsampling, then of each further one. has_conv_block: a UnetBlock follows
  // each further one.
  UnetrPrUpBlockImpl(const UnetBlockOptions& options,
                     const std::vector<std::vector<int64_t>>& strides, bool has_conv_block,
                     at::Device device);

  // x: [B, in, sides] -> [B, out, sides times all strides].
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Conv transp_conv_init_ = nullptr;
  std::vector<Conv> upsample_;
  std::vector<UnetBlock> conv_blocks_;  // as many as upsample_, or none
};
using UnetrPrUpBlock = UnitHolder<UnetrPrUpBlockImpl>;

// A 1 x 1 (x 1) convolution with a bias: MONAI's UnetOutBlock.
class UnetOutBlockImpl : public UnitImpl {
 public:
  UnetOutBlockImpl(const UnetBlockOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;  // [B, in, sides] -> [B, out, sides]

 private:
  Conv conv_ = nullptr;
};
using UnetOutBlock = UnitHolder<UnetOutBlockImpl>;

}  // namespace fovea::nn
