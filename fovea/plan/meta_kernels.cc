#include "fovea/plan/meta_kernels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <array>
#include <tuple>
#include <vector>

namespace fovea::plan {
namespace {

at::Scalar number_of(const at::Tensor& x) {
  return x.scalar_type() == at::kBool ? at::Scalar(true) : at::Scalar(1);
}

at::Tensor least_or_largest(const at::Tensor& x) { return at::empty({}, x.options()); }

at::Tensor unfold_backward(const at::Tensor& dy, at::IntArrayRef sizes, int64_t /*dim*/,
                           int64_t /*size*/, int64_t /*step*/) {
  return at::empty(sizes, dy.options());
}

// x: [B, C, sides], weight: [F, C / groups, kernel], or transposed [C, F / groups, kernel]
// -> [B, F, sides].
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& /*bias*/, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool is_transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  std::vector<int64_t> shape = {x.size(0),
                                is_transposed ? weight.size(1) * groups : weight.size(0)};
  for (size_t i = 0; i < stride.size(); ++i) {
    const auto side = static_cast<int64_t>(i) + 2;
    const int64_t reach = dilation[i] * (weight.size(side) - 1);
    shape.push_back(is_transposed ? (x.size(side) - 1) * stride[i] - 2 * padding[i] + reach +
                                        output_padding[i] + 1
                                  : (x.size(side) + 2 * padding[i] - reach - 1) / stride[i] + 1);
  }
  return at::empty(shape, x.options());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef /*stride*/,
    at::IntArrayRef /*padding*/, at::IntArrayRef /*dilation*/, bool is_transposed,
    at::IntArrayRef /*output_padding*/, int64_t groups, std::array<bool, 3> wanted) {
  const int64_t features = is_transposed ? weight.size(1) * groups : weight.size(0);
  return {wanted[0] ? at::empty_like(x) : at::Tensor(),
          wanted[1] ? at::empty_like(weight) : at::Tensor(),
          wanted[2] ? at::empty({features}, dy.options()) : at::Tensor()};
}

}  // namespace

MetaKernels::MetaKernels()
    : library_(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__) {
  library_.impl("_local_scalar_dense", number_of);
  library_.impl("min", least_or_largest);
  library_.impl("max", least_or_largest);
  library_.impl("unfold_backward", unfold_backward);
  library_.impl("convolution_overrideable", convolution);
  library_.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace fovea::plan
