// Products, attention, norms, convolutions and resizing.

#include <cmath>

#include "fovea/onnx/int8_product.h"
#include "fovea/onnx/translator.h"

namespace fovea::onnx {
namespace {

// x W^T. A parameter stands in the file as it is multiplied: what quantises a file's weights, such
// as NNCF, does not look behind a Transpose.
std::string float_product(Translator& to) {
  auto& graph = to.graph();
  auto weight = to.parameter_name("weight");
  if (weight.empty()) {
    weight = graph.add("Transpose", {to.tensor("weight")}, {{"perm", std::vector<int64_t>{1, 0}}});
  } else {
    weight += "_transposed";
    graph.add_initializer(weight, to.parameter("weight").t());
  }
  return graph.add("MatMul", {to.tensor("input"), weight});
}

void linear(Translator& to) {
  const auto of_codes = int8_product(to);
  auto y = of_codes ? *of_codes : float_product(to);
  if (!to.is_none("bias")) y = to.graph().add("Add", {y, to.tensor("bias")});
  to.set(y);
}

std::function<void(Translator&)> product(const char* other) {
  return [other](Translator& to) {
    to.set(to.graph().add("MatMul", {to.tensor("self"), to.tensor(other)}));
  };
}

// softmax(q k^T * scale + mask) v. q: [B, H, N, K], k and v: [B, H, M, K].
void attention(Translator& to) {
  if (to.number("dropout_p") != 0 || to.flag("is_causal")) {
    to.refuse("dropout or a causal mask");
  }
  auto& graph = to.graph();
  const auto width = static_cast<double>(to.shape("query").back().fixed);
  const double scale = to.number_or("scale", 1 / std::sqrt(width));
  const auto keys =
      graph.add("Transpose", {to.tensor("key")}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const auto queries = graph.add("Mul", {to.tensor("query"), graph.number(scale)});
  auto scores = graph.add("MatMul", {queries, keys});  // [B, H, N, M]
  if (!to.is_none("attn_mask")) {
    if (!at::isFloatingType(to.dtype("attn_mask"))) to.refuse("a mask of truth values");
    scores = graph.add("Add", {scores, to.tensor("attn_mask")});
  }
  const auto probabilities = graph.add("Softmax", {scores}, {{"axis", int64_t{-1}}});
  to.set(graph.add("MatMul", {probabilities, to.tensor("value")}));
}

// A parameter, or a constant of its shape where there is none: ONNX wants one.
std::string parameter_or(Translator& to, const std::string& name, int64_t length, double value) {
  if (!to.is_none(name)) return to.tensor(name);
  auto& graph = to.graph();
  return graph.add("Expand", {graph.number(value), graph.integers({length})});
}

void layer_norm(Translator& to) {
  const auto sides = to.integers("normalized_shape");
  if (sides.size() != 1) to.refuse("a norm over several sides");
  std::vector<std::string> inputs = {to.tensor("input"), parameter_or(to, "weight", sides[0], 1)};
  if (!to.is_none("bias")) inputs.push_back(to.tensor("bias"));
  to.set(
      to.graph().add("LayerNormalization", inputs,
                     {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(to.number("eps"))}}));
}

// x: [B, C, sides], each channel of each sample by itself.
void instance_norm(Translator& to) {
  if (!to.flag("use_input_stats")) to.refuse("running statistics");
  const auto channels = to.shape("input")[1].fixed;
  to.set(to.graph().add("InstanceNormalization",
                        {to.tensor("input"), parameter_or(to, "weight", channels, 1),
                         parameter_or(to, "bias", channels, 0)},
                        {{"epsilon", static_cast<float>(to.number("eps"))}}));
}

void convolution(Translator& to) {
  const bool is_transposed = to.flag("transposed");
  const auto padding = to.integers("padding");
  auto pads = padding;  // the same at the end
  pads.insert(pads.end(), padding.begin(), padding.end());
  Attributes attributes = {{"strides", to.integers("stride")},
                           {"pads", pads},
                           {"dilations", to.integers("dilation")},
                           {"group", to.integer("groups")}};
  if (is_transposed) attributes.emplace_back("output_padding", to.integers("output_padding"));
  std::vector<std::string> inputs = {to.tensor("input"), to.tensor("weight")};
  if (!to.is_none("bias")) inputs.push_back(to.tensor("bias"));
  to.set(to.graph().add(is_transposed ? "ConvTranspose" : "Conv", inputs, attributes));
}

// Linear along each side. x: [B, C, sides].
void resize(Translator& to) {
  const bool keeps_corners = to.flag("align_corners");
  to.set(to.graph().add(
      "Resize", {to.tensor("self"), "", "", to.graph().sizes(to.output_shape())},
      {{"mode", "linear"},
       {"coordinate_transformation_mode", keeps_corners ? "align_corners" : "half_pixel"}}));
}

}  // namespace

Operations layer_operations() {
  return {{"aten::linear", linear},
          {"aten::matmul", product("other")},
          {"aten::bmm", product("mat2")},
          {"aten::mm", product("mat2")},
          {"aten::scaled_dot_product_attention", attention},
          {"aten::native_layer_norm", layer_norm},
          {"aten::instance_norm", instance_norm},
          {"aten::convolution", convolution},
          {"aten::_convolution", convolution},  // what a tracer calls it
          {"aten::upsample_bilinear2d", resize},
          {"aten::upsample_trilinear3d", resize}};
}

}  // namespace fovea::onnx
