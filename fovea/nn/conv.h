// Convolutions and transposed convolutions over images and volumes.
#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "fovea/nn/unit.h"
#include "fovea/nn/unit_holder.h"

namespace fovea::nn {

struct ConvOptions {
  int64_t in_chans = 0;
  int64_t out_chans = 0;
  // One entry for each side: 2 entries for images, 3 for volumes. As many output as input voxels
  // where the stride is 1 (kernels are odd then).
  std::vector<int64_t> kernel_size;
  // Transposed with stride = kernel_size: each voxel becomes kernel_size voxels.
  bool is_transposed = false;
  bool has_bias = false;
};

// x: [B, C, (D,) H, W] -> [B, out_chans, (D,) H, W]; transposed: every side times its kernel_size.
// Parameters, as in MONAI's Convolution: conv.weight [out, in, ...], transposed [in, out, ...], and
// conv.bias [out]. Computes in the dtype of x.
class ConvImpl : public UnitImpl {
 public:
  ConvImpl(const ConvOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;

  const ConvOptions& options() const { return options_; }

 private:
  ConvOptions options_;
  at::Tensor weight_;
  at::Tensor bias_;  // undefined where has_bias is false
};
using Conv = UnitHolder<ConvImpl>;

}  // namespace fovea::nn
