#include "fovea/train/bench/product_flops.h"

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>

#include <map>
#include <string_view>

namespace fovea::train {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

constexpr std::string_view kFp8Product = "aten::_scaled_mm";

double count(at::IntArrayRef sizes) { return static_cast<double>(c10::multiply_integers(sizes)); }

// a: [..., M, K], b: [..., K, N].
double flops_of(const at::Tensor& a, const at::Tensor& b) {
  return 2 * count(a.sizes()) * static_cast<double>(b.size(-1));
}

// q: [B, H, N, K], k: [B, H, M, K]: one of the products of attention.
double attention_flops(const at::Tensor& q, const at::Tensor& k) {
  return 2 * count(q.sizes()) * static_cast<double>(k.size(2));
}

// One of a convolution's three products: output, gradient of the input, gradient of the weight.
// Each multiplies every weight with as many places of each sample as the side without a stride has:
// the output's, or those of the input of a transposed one. Padding counts as values.
// weight: [F, C / groups, kernel], or transposed [C, F / groups, kernel]; places: [B, F, sides].
double convolution_flops(const at::Tensor& weight, double num_places) {
  return 2 * num_places * count(weight.sizes());
}

// Of all samples.
double num_places(const at::Tensor& x) {
  return static_cast<double>(x.size(0)) * count(x.sizes().slice(2));
}

// The inputs of aten::convolution: x, weight, bias, stride, padding, dilation, is_transposed, ...
double forward_places(const Inputs& in) {
  const auto& x = in[0].toTensor();
  const auto& weight = in[1].toTensor();
  if (in[6].toBool()) return num_places(x);
  const auto stride = in[3].toIntVector(), padding = in[4].toIntVector(),
             dilation = in[5].toIntVector();
  auto places = static_cast<double>(x.size(0));
  for (size_t i = 0; i < stride.size(); ++i) {
    const auto side = static_cast<int64_t>(i) + 2;
    const auto reach = dilation[i] * (weight.size(side) - 1);
    places *= static_cast<double>((x.size(side) + 2 * padding[i] - reach - 1) / stride[i] + 1);
  }
  return places;
}

// The inputs of aten::convolution_backward: dy, x, weight, bias_sizes, stride, padding, dilation,
// is_transposed, output_padding, groups, which of three gradients.
double convolution_backward_flops(const Inputs& in) {
  const auto wanted = in[10].toBoolList();
  const auto places = num_places(in[in[7].toBool() ? 1 : 0].toTensor());
  return (int{wanted[0]} + int{wanted[1]}) * convolution_flops(in[2].toTensor(), places);
}

// Attention's forward has two products, its backward recomputes one and has four more.
const std::map<std::string_view, double (*)(const Inputs&)>& counted_operations() {
  static const std::map<std::string_view, double (*)(const Inputs&)> operations = {
      {"aten::mm", [](const Inputs& in) { return flops_of(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::bmm", [](const Inputs& in) { return flops_of(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::addmm",
       [](const Inputs& in) { return flops_of(in[1].toTensor(), in[2].toTensor()); }},
      {"aten::baddbmm",
       [](const Inputs& in) { return flops_of(in[1].toTensor(), in[2].toTensor()); }},
      {kFp8Product, [](const Inputs& in) { return flops_of(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::convolution",
       [](const Inputs& in) { return convolution_flops(in[1].toTensor(), forward_places(in)); }},
      {"aten::convolution_backward", convolution_backward_flops},
      {"aten::_scaled_dot_product_flash_attention_for_cpu",
       [](const Inputs& in) { return 2 * attention_flops(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       [](const Inputs& in) { return 5 * attention_flops(in[1].toTensor(), in[2].toTensor()); }},
  };
  return operations;
}

}  // namespace

double product_flops(const at::RecordFunction& function) {
  const auto found = counted_operations().find(function.name());
  return found == counted_operations().end() ? 0 : found->second(function.inputs());
}

bool is_fp8_product(const at::RecordFunction& function) { return function.name() == kFp8Product; }

}  // namespace fovea::train
