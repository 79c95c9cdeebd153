// Operations on single values, and sums of them.
#include <cmath>

#include "fovea/onnx/translator.h"

namespace fovea::onnx {
namespace {

std::function<void(Translator&)> unary(const char* op_type) {
  return [op_type](Translator& to) { to.set(to.graph().add(op_type, {to.tensor("self")})); };
}

std::function<void(Translator&)> binary(const char* op_type) {
  return [op_type](Translator& to) {
    if (to.number_or("alpha", 1) != 1) to.refuse("a factor of the second term");
    if (!to.is_none("rounding_mode")) to.refuse("a rounded quotient");
    to.set(to.graph().add(op_type, {to.tensor("self"), to.tensor_or_number("other")}));
  };
}

// The exact one by the error function: x / 2 (1 + erf(x / sqrt(2))).
std::string exact_gelu(GraphBuilder& graph, const std::string& x) {
  const auto error = graph.add("Erf", {graph.add("Div", {x, graph.number(std::sqrt(2.0))})});
  const auto sum = graph.add("Add", {error, graph.number(1)});
  return graph.add("Mul", {graph.add("Mul", {x, sum}), graph.number(0.5)});
}

// Hendrycks and Gimpel 2016: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
std::string tanh_gelu(GraphBuilder& graph, const std::string& x) {
  const auto cube = graph.add("Mul", {graph.add("Mul", {x, x}), x});
  const auto inner = graph.add("Add", {x, graph.add("Mul", {cube, graph.number(0.044715)})});
  const double scale = std::sqrt(2.0 / std::acos(-1.0));
  const auto curve = graph.add("Tanh", {graph.add("Mul", {inner, graph.number(scale)})});
  const auto sum = graph.add("Add", {curve, graph.number(1)});
  return graph.add("Mul", {graph.add("Mul", {x, sum}), graph.number(0.5)});
}

void gelu(Translator& to) {
  const auto kind = to.text("approximate");
  if (kind != "none" && kind != "tanh") to.refuse("approximation '" + kind + "'");
  const auto x = to.tensor("self");
  to.set(kind == "tanh" ? tanh_gelu(to.graph(), x) : exact_gelu(to.graph(), x));
}

void silu(Translator& to) {
  const auto x = to.tensor("self");
  to.set(to.graph().add("Mul", {x, to.graph().add("Sigmoid", {x})}));
}

void leaky_relu(Translator& to) {
  to.set(to.graph().add("LeakyRelu", {to.tensor("self")},
                        {{"alpha", static_cast<float>(to.number("negative_slope"))}}));
}

void square(Translator& to) {
  const auto x = to.tensor("self");
  to.set(to.graph().add("Mul", {x, x}));
}

void rsqrt(Translator& to) {
  to.set(to.graph().add("Reciprocal", {to.graph().add("Sqrt", {to.tensor("self")})}));
}

void softmax(Translator& to) {
  to.set(to.graph().add("Softmax", {to.tensor("self")}, {{"axis", to.side("dim", "self")}}));
}

// The sides that a sum runs over: all where none are named.
std::vector<int64_t> summed_sides(Translator& to) {
  const auto count = static_cast<int64_t>(to.shape("self").size());
  auto sides = to.is_none("dim") ? std::vector<int64_t>{} : to.integers("dim");
  for (auto& side : sides) side += side < 0 ? count : 0;
  for (int64_t side = 0; sides.empty() && side < count; ++side) sides.push_back(side);
  return sides;
}

// In this version of the standard the sides of a sum are an input, those of others an attribute.
std::function<void(Translator&)> reduced(const char* op_type) {
  return [op_type](Translator& to) {
    const int64_t keeps = to.is_none("keepdim") ? 0 : to.flag("keepdim");
    const auto sides = summed_sides(to);
    if (std::string_view(op_type) == "ReduceSum") {
      to.set(to.graph().add(op_type, {to.tensor("self"), to.graph().integers(sides)},
                            {{"keepdims", keeps}}));
    } else {
      to.set(to.graph().add(op_type, {to.tensor("self")}, {{"axes", sides}, {"keepdims", keeps}}));
    }
  };
}

// Whether one of several is true: ONNX's largest is of numbers.
void any(Translator& to) {
  auto& graph = to.graph();
  const auto numbers = graph.cast(to.tensor("self"), at::kFloat);
  const int64_t keeps = to.is_none("keepdim") ? 0 : to.flag("keepdim");
  const auto largest =
      graph.add("ReduceMax", {numbers},
                {{"axes", std::vector<int64_t>{to.side("dim", "self")}}, {"keepdims", keeps}});
  to.set(graph.cast(largest, at::kBool));
}

}  // namespace

Operations arithmetic_operations() {
  return {{"aten::add", binary("Add")},
          {"aten::sub", binary("Sub")},
          {"aten::mul", binary("Mul")},
          {"aten::div", binary("Div")},
          {"aten::neg", unary("Neg")},
          {"aten::exp", unary("Exp")},
          {"aten::sqrt", unary("Sqrt")},
          {"aten::tanh", unary("Tanh")},
          {"aten::sigmoid", unary("Sigmoid")},
          {"aten::relu", unary("Relu")},
          {"aten::gelu", gelu},
          {"aten::silu", silu},
          {"aten::leaky_relu", leaky_relu},
          {"aten::square", square},
          {"aten::rsqrt", rsqrt},
          {"aten::logical_not", unary("Not")},
          {"aten::logical_or", binary("Or")},
          {"aten::logical_and", binary("And")},
          {"aten::any", any},
          {"aten::softmax", softmax},
          {"aten::mean", reduced("ReduceMean")},
          {"aten::sum", reduced("ReduceSum")},
          {"aten::amax", reduced("ReduceMax")}};
}

}  // namespace fovea::onnx
