#include "fovea/onnx/int8_product.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <string_view>

#include "fovea/kernels/cpu/int8_product.h"

namespace fovea::onnx {
namespace {

namespace cpu = kernels::cpu;

// [N, K] of weight_bits.
std::string int8_weight(Translator& to) {
  const auto name = to.parameter_name("weight");
  const auto values = to.parameter("weight").contiguous();
  const int64_t N = values.size(0), K = values.size(1);
  const auto codes = at::empty({N, K}, at::kChar), scales = at::empty({N}, at::kFloat);
  const int most_code = (1 << (to.int8().weight_bits - 1)) - 1;
  for (int64_t n = 0; n < N; ++n) {
    const float scale = cpu::int8_column(values.const_data_ptr<float>() + n * K, K,
                                         codes.mutable_data_ptr<int8_t>() + n * K, most_code);
    // That of zeros is not 0, by which programs would divide.
    scales.mutable_data_ptr<float>()[n] = scale == 0 ? 1 : scale;
  }
  auto& graph = to.graph();
  graph.add_initializer(name + "_quantized", codes);
  graph.add_initializer(name + "_scale", scales);
  graph.add_initializer(name + "_zero_point", at::zeros({N}, at::kChar));
  return graph.add("DequantizeLinear", {name + "_quantized", name + "_scale", name + "_zero_point"},
                   {{"axis", int64_t{0}}});
}

std::string int8_input(Translator& to, const std::string& layer, const kernels::Int8Range& range) {
  constexpr float kScaleOfZeros = 1e-30f;  // whose 255 codes are all next to 0
  const auto row = cpu::int8_row(range);
  auto& graph = to.graph();
  const auto scale = layer + ".input_scale", zero = layer + ".input_zero_point";
  graph.add_initializer(scale, at::scalar_tensor(row.scale == 0 ? kScaleOfZeros : row.scale,
                                                 at::TensorOptions().dtype(at::kFloat)));
  graph.add_initializer(zero, at::scalar_tensor(row.zero, at::TensorOptions().dtype(at::kByte)));
  const auto codes = graph.add("QuantizeLinear", {to.tensor("input"), scale, zero});
  return graph.add("DequantizeLinear", {codes, scale, zero});
}

// ONNX Runtime makes a Gemm of a MatMul of two dims and the Add behind it, and that with a bias of
// float32 it does not compute with codes; it does with a Gemm that stands there, and an Add.
std::string product_of(Translator& to, const std::string& input, const std::string& weight) {
  auto& graph = to.graph();
  if (to.shape("input").size() == 2) {
    return graph.add("Gemm", {input, weight}, {{"transB", int64_t{1}}});
  }
  const auto columns = graph.add("Transpose", {weight}, {{"perm", std::vector<int64_t>{1, 0}}});
  return graph.add("MatMul", {input, columns});
}

}  // namespace

std::optional<std::string> int8_product(Translator& to) {
  constexpr std::string_view kEnding = ".weight";
  auto layer = to.parameter_name("weight");
  if (!layer.ends_with(kEnding)) return std::nullopt;
  layer.resize(layer.size() - kEnding.size());
  const auto range = to.int8().inputs.find(layer);
  if (range == to.int8().inputs.end()) return std::nullopt;
  const auto input = int8_input(to, layer, range->second);
  return product_of(to, input, int8_weight(to));
}

}  // namespace fovea::onnx
