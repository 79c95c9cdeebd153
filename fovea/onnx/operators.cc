// Shapes are libtorch's, so [B, N, D] stands for B batch, N tokens, D width.
#include "fovea/onnx/operators.h"

#include <fmt/format.h>

#include "fovea/core/error.h"
#include "fovea/onnx/translator.h"

namespace fovea::onnx {
namespace {

const Operations& table() {
  static const Operations operations = [] {
    Operations all = shape_operations();
    all.merge(arithmetic_operations());
    all.merge(layer_operations());
    return all;
  }();
  return operations;
}

}  // namespace

Graph to_graph(const Trace& trace, const std::vector<TracedInput>& inputs,
               const std::map<std::string, at::Tensor>& parameters,
               const std::vector<std::string>& output_names, const Int8Layers& int8) {
  Translator to(trace, inputs, parameters, int8);
  for (const auto& call : trace.calls) {
    const auto found = table().find(call.name);
    if (found == table().end()) {
      fail<ConfigError>(
          "{} uses {}, which the export to ONNX does not know; export another part of the model, "
          "or "
          "its weights (--to safetensors)",
          call.path.empty() ? "the model" : "'" + call.path + "'", call.name);
    }
    to.begin(call);
    found->second(to);
  }
  return to.finish(output_names);
}

}  // namespace fovea::onnx
