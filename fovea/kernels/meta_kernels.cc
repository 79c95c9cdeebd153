#include "fovea/kernels/meta_kernels.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/sum.h>
#include <c10/core/WrapDimMinimal.h>

#include <array>
#include <tuple>
#include <vector>

namespace fovea::kernels {
namespace {

at::Tensor least_or_largest(const at::Tensor& x) { return at::empty({}, x.options()); }

at::Tensor relu(const at::Tensor& x) { return at::empty_like(x); }

at::Tensor unfold_backward(const at::Tensor& dy, at::IntArrayRef sizes, int64_t /*dim*/,
                           int64_t /*size*/, int64_t /*step*/) {
  return at::empty(sizes, dy.options());
}

// Of one dim of x, the rows that `index` names. -> [..., numel(index), ...]
at::Tensor index_select(const at::Tensor& x, int64_t dim, const at::Tensor& index) {
  auto shape = x.sizes().vec();
  shape.at(static_cast<size_t>(c10::maybe_wrap_dim(dim, x.dim()))) = index.numel();
  return at::empty(shape, x.options());
}

// Bags of rows of `weight` [R, D], each summed: indices [M], offsets [bags] -> [bags, D], and what
// backward wants: [M], [bags], [bags].
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> embedding_bag(
    const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
    bool /*scale_by_frequency*/, int64_t /*mode*/, bool /*is_sparse*/,
    const std::optional<at::Tensor>& /*shares*/, bool includes_last_offset,
    int64_t /*padding_index*/) {
  const int64_t bags = offsets.size(0) - (includes_last_offset ? 1 : 0);
  return {at::empty({bags, weight.size(1)}, weight.options()),
          at::empty({indices.size(0)}, offsets.options()), at::empty({bags}, offsets.options()),
          at::empty({bags}, offsets.options())};
}

at::Tensor embedding_bag_backward(const at::Tensor& dy, const at::Tensor& /*indices*/,
                                  const at::Tensor& /*offsets*/, const at::Tensor& /*bag_of_index*/,
                                  const at::Tensor& /*bag_sizes*/, const at::Tensor& /*largest*/,
                                  int64_t num_rows, bool /*scale_by_frequency*/, int64_t /*mode*/,
                                  bool /*is_sparse*/, const std::optional<at::Tensor>& /*shares*/,
                                  int64_t /*padding_index*/) {
  return at::empty({num_rows, dy.size(1)}, dy.options());
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

at::Tensor& same_shape_out(const at::Tensor& x, at::Tensor& out) {
  out.resize_(x.sizes());
  return out;
}

at::Tensor& logical_pair_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  out.resize_(at::infer_size(a.sizes(), b.sizes()));
  return out;
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b) {
  const auto shape = at::infer_size(at::infer_size(a.sizes(), b.sizes()), condition.sizes());
  return at::empty(shape, condition.options().dtype(at::result_type(a, b)));
}

// What the second result is to backward, a GPU does without.
std::tuple<at::Tensor, at::Tensor> log_sigmoid(const at::Tensor& x) {
  return {at::empty_like(x), at::empty({0}, x.options())};
}

at::Tensor log_sigmoid_backward(const at::Tensor& dy, const at::Tensor& /*x*/,
                                const at::Tensor& /*buffer*/) {
  return at::empty_like(dy);
}

at::Tensor variance(const at::Tensor& x, at::OptionalIntArrayRef dims,
                    const std::optional<at::Scalar>& /*correction*/, bool keeps_dims) {
  return at::empty_like(at::sum(x, dims, keeps_dims));
}

// x: [..., normalized]; weight, bias: [normalized].
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& /*dy*/, const at::Tensor& x, at::IntArrayRef normalized,
    const at::Tensor& /*mean*/, const at::Tensor& /*rstd*/, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& /*bias*/, std::array<bool, 3> wanted) {
  const auto options = weight && weight->defined() ? weight->options() : x.options();
  return {wanted[0] ? at::empty_like(x) : at::Tensor(),
          wanted[1] ? at::empty(normalized, options) : at::Tensor(),
          wanted[2] ? at::empty(normalized, options) : at::Tensor()};
}

// a: [M, K], b: [K, N], codes of FP8 -> [M, N].
at::Tensor meta_scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& /*of_a*/,
                          const at::Tensor& /*of_b*/, const std::optional<at::Tensor>& /*bias*/,
                          const std::optional<at::Tensor>& /*of_result*/,
                          std::optional<at::ScalarType> dtype, bool /*sums_fast*/) {
  return at::empty({a.size(0), b.size(1)}, a.options().dtype(dtype.value_or(a.scalar_type())));
}

// x: [B, C, sides] -> the same, and [C] of each channel twice.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(
    const at::Tensor& x, const std::optional<at::Tensor>& /*weight*/,
    const std::optional<at::Tensor>& /*bias*/, const std::optional<at::Tensor>& /*mean*/,
    const std::optional<at::Tensor>& /*variance*/, bool /*is_training*/, double /*momentum*/,
    double /*eps*/) {
  const auto of_channels = x.options().dtype(at::kFloat);
  return {at::empty_like(x), at::empty({x.size(1)}, of_channels),
          at::empty({x.size(1)}, of_channels)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_backward(
    const at::Tensor& /*dy*/, const at::Tensor& x, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& /*mean*/, const std::optional<at::Tensor>& /*variance*/,
    const std::optional<at::Tensor>& /*saved_mean*/,
    const std::optional<at::Tensor>& /*saved_variance*/, bool /*is_training*/, double /*eps*/,
    std::array<bool, 3> wanted) {
  const auto options = weight && weight->defined() ? weight->options() : x.options();
  const auto of_channels = [&](bool is_wanted) {
    return is_wanted ? at::empty({x.size(1)}, options) : at::Tensor();
  };
  return {wanted[0] ? at::empty_like(x) : at::Tensor(), of_channels(wanted[1]),
          of_channels(wanted[2])};
}

}  // namespace

MetaKernels::MetaKernels()
    : library_(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__) {
  library_.impl("_local_scalar_dense", [this](const at::Tensor& x) { return number_of(x); });
  library_.impl("copy_", [this](at::Tensor& to, const at::Tensor& from, bool) -> at::Tensor& {
    from.expand(to.sizes());  // throws where the shapes do not go together
    if (!to.is_meta()) to.fill_(number_of(from));
    return to;
  });
  library_.impl("min", least_or_largest);
  library_.impl("max", least_or_largest);
  library_.impl("relu", relu);
  library_.impl("unfold_backward", unfold_backward);
  library_.impl("abs.out", same_shape_out);
  library_.impl("logical_not.out", same_shape_out);
  library_.impl("logical_or.out", logical_pair_out);
  library_.impl("logical_and.out", logical_pair_out);
  library_.impl("where.self", where);
  library_.impl("index_select", index_select);
  library_.impl("_embedding_bag", embedding_bag);
  library_.impl("_embedding_bag_forward_only", embedding_bag);
  library_.impl("_embedding_bag_backward", embedding_bag_backward);
  library_.impl("log_sigmoid_forward", log_sigmoid);
  library_.impl("log_sigmoid_backward", log_sigmoid_backward);
  library_.impl("var.correction", variance);
  library_.impl("native_layer_norm_backward", layer_norm_backward);
  library_.impl("_scaled_mm", meta_scaled_mm);
  library_.impl("native_batch_norm", batch_norm);
  library_.impl("native_batch_norm_backward", batch_norm_backward);
  library_.impl("convolution_overrideable", convolution);
  library_.impl("convolution_backward_overrideable", convolution_backward);
}

at::Scalar MetaKernels::number_of(const at::Tensor& x) const {
  if (x.scalar_type() == at::kBool) return {conditions_hold_};
  return {at::isIntegralType(x.scalar_type(), /*includeBool=*/false) ? 0 : 1};
}

}  // namespace fovea::kernels
