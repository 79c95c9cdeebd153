#include "fovea/train/product_flops.h"

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>

#include <map>
#include <string_view>

namespace fovea::train {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

double count(at::IntArrayRef sizes) { return static_cast<double>(c10::multiply_integers(sizes)); }

// a: [..., M, K], b: [..., K, N].
double flops_of(const at::Tensor& a, const at::Tensor& b) {
  return 2 * count(a.sizes()) * static_cast<double>(b.size(-1));
}

// q: [B, H, N, K], k: [B, H, M, K]: one of the products of attention.
double attention_flops(const at::Tensor& q, const at::Tensor& k) {
  return 2 * count(q.sizes()) * static_cast<double>(k.size(2));
}

// Forward has two products, backward recomputes one and has four more.
const std::map<std::string_view, double (*)(const Inputs&)>& counted_operations() {
  static const std::map<std::string_view, double (*)(const Inputs&)> operations = {
      {"aten::mm", [](const Inputs& in) { return flops_of(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::bmm", [](const Inputs& in) { return flops_of(in[0].toTensor(), in[1].toTensor()); }},
      {"aten::addmm",
       [](const Inputs& in) { return flops_of(in[1].toTensor(), in[2].toTensor()); }},
      {"aten::baddbmm",
       [](const Inputs& in) { return flops_of(in[1].toTensor(), in[2].toTensor()); }},
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

}  // namespace fovea::train
