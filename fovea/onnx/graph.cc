#include "fovea/onnx/graph.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace fovea::onnx {

int64_t number_of_type(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return 2;
    case at::kChar:
      return 3;
    case at::kLong:
      return 7;
    case at::kBool:
      return 9;
    default:
      return 1;
  }
}

std::string GraphBuilder::unique(const std::string& name) {
  const auto count = name_counts_[name]++;
  return count == 0 ? name : fmt::format("{}_{}", name, count);
}

std::vector<std::string> GraphBuilder::add(const std::string& op_type,
                                           std::vector<std::string> inputs, size_t num_outputs,
                                           Attributes attributes) {
  const auto name = unique(path_.empty() ? op_type : path_ + "." + op_type);
  Node node{.op_type = op_type,
            .name = name,
            .inputs = std::move(inputs),
            .outputs = {},
            .attributes = std::move(attributes)};
  for (size_t i = 0; i < num_outputs; ++i) {
    node.outputs.push_back(num_outputs == 1 ? name : fmt::format("{}:{}", name, i));
  }
  auto outputs = node.outputs;
  graph_.nodes.push_back(std::move(node));
  return outputs;
}

std::string GraphBuilder::add(const std::string& op_type, std::vector<std::string> inputs,
                              Attributes attributes) {
  return add(op_type, std::move(inputs), 1, std::move(attributes)).front();
}

void GraphBuilder::add_initializer(const std::string& name, const at::Tensor& value) {
  if (!initializer_names_.insert(name).second) return;
  graph_.initializers.push_back({name, value.contiguous()});
}

std::string GraphBuilder::constant(const std::string& name, const at::Tensor& value) {
  const auto [known, is_new] = constants_.try_emplace(name, "constant." + name);
  if (is_new) add_initializer(known->second, value);
  return known->second;
}

std::string GraphBuilder::integers(const std::vector<int64_t>& values) {
  return constant(fmt::format("[{}]", fmt::join(values, ",")),
                  at::tensor(values, at::TensorOptions().dtype(at::kLong)));
}

std::string GraphBuilder::index(int64_t value) {
  return constant(fmt::format("{}", value),
                  at::scalar_tensor(value, at::TensorOptions().dtype(at::kLong)));
}

std::string GraphBuilder::number(double value) {
  return constant(fmt::format("{:#}", value),
                  at::scalar_tensor(value, at::TensorOptions().dtype(at::kFloat)));
}

std::string GraphBuilder::sizes(const Sizes& values) {
  std::vector<int64_t> fixed;
  std::vector<std::string> parts;
  const auto flush = [&] {
    if (!fixed.empty()) parts.push_back(integers(fixed));
    fixed.clear();
  };
  for (const auto& size : values) {
    if (size.is_fixed()) {
      fixed.push_back(size.fixed);
      continue;
    }
    flush();
    if (batch_.empty()) {
      batch_ = add("Shape", {first_input_}, {{"start", int64_t{0}}, {"end", int64_t{1}}});  // [1]
    }
    parts.push_back(size.batches == 1 ? batch_ : add("Mul", {batch_, integers({size.batches})}));
  }
  flush();
  return parts.size() == 1 ? parts.front() : add("Concat", parts, {{"axis", int64_t{0}}});
}

std::string GraphBuilder::cast(const std::string& value, at::ScalarType to) {
  return add("Cast", {value}, {{"to", number_of_type(to)}});
}

Graph GraphBuilder::finish(
    const std::vector<Port>& inputs,
    const std::vector<std::tuple<std::string, std::string, Sizes>>& outputs) {
  path_.clear();
  Graph graph;
  std::set<std::string> needed;
  for (const auto& [value, name, shape] : outputs) {
    graph_.nodes.push_back({"Identity", "output." + name, {value}, {name}, {}});
    graph.outputs.push_back({.name = name, .shape = shape});
    needed.insert(name);
  }
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    const bool is_used = std::any_of(node->outputs.begin(), node->outputs.end(),
                                     [&](const auto& output) { return needed.contains(output); });
    if (!is_used) continue;
    needed.insert(node->inputs.begin(), node->inputs.end());
    graph.nodes.push_back(std::move(*node));
  }
  std::reverse(graph.nodes.begin(), graph.nodes.end());
  for (const auto& input : inputs) {
    if (needed.contains(input.name)) graph.inputs.push_back(input);
  }
  for (auto& item : graph_.initializers) {
    if (needed.contains(item.name)) graph.initializers.push_back(std::move(item));
  }
  return graph;
}

}  // namespace fovea::onnx
