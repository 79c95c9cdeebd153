#include "fovea/nn/conv.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

// Note [Convolutions of small volumes]
// In bfloat16 oneDNN, as libtorch 2.11 has it for AVX-512, does not write all of a weight's
// gradient where a volume has fewer slices than the kernel: what was in the memory before stays,
// which may be anything. The lowest levels of a U-Net are so small, and are computed in float32
// there, which costs next to nothing.
at::ScalarType dtype_of_products(const at::Tensor& x, const ConvOptions& options) {
  const bool is_small = options.kernel_size.size() == 3 && x.size(2) < options.kernel_size.front();
  const bool is_wrong = is_small && x.is_cpu() && x.scalar_type() == at::kBFloat16;
  return is_wrong && !options.is_transposed ? at::kFloat : x.scalar_type();
}

}  // namespace

ConvImpl::ConvImpl(const ConvOptions& options, at::Device device) : options_(options) {
  const auto tensor_options = at::TensorOptions().dtype(at::kFloat).device(device);
  std::vector<int64_t> shape = {options.out_chans, options.in_chans};
  if (options.is_transposed) std::swap(shape[0], shape[1]);
  shape.insert(shape.end(), options.kernel_size.begin(), options.kernel_size.end());
  // A submodule of its own, so that the names are MONAI's.
  const auto conv = register_module("conv", std::make_shared<torch::nn::Module>());
  weight_ = conv->register_parameter("weight", at::empty(shape, tensor_options));
  if (options.has_bias) {
    bias_ = conv->register_parameter("bias", at::empty({options.out_chans}, tensor_options));
  }
}

at::Tensor ConvImpl::forward(const at::Tensor& x) const {
  const auto& kernel = options_.kernel_size;
  const auto sides = kernel.size();
  FOVEA_CHECK(x.dim() == static_cast<int64_t>(sides) + 2 && x.size(1) == options_.in_chans,
              "an input of shape [{}]; expected [B, {}, {} sides]", fmt::join(x.sizes(), ", "),
              options_.in_chans, sides);
  return run([&] {
    const std::vector<int64_t> ones(sides, 1), zeros(sides, 0);
    std::vector<int64_t> padding(sides, 0);
    for (size_t i = 0; i < sides && !options_.is_transposed; ++i) padding[i] = (kernel[i] - 1) / 2;
    const auto dtype = dtype_of_products(x, options_);
    const auto bias = bias_.defined() ? bias_.to(dtype) : bias_;
    const auto y = at::convolution(x.to(dtype), weight_.to(dtype), bias,
                                   options_.is_transposed ? kernel : ones, padding, ones,
                                   options_.is_transposed, zeros, 1);
    return y.to(x.scalar_type());
  });
}

}  // namespace fovea::nn
