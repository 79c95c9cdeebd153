// libtorch's operations in ONNX's: one table.
#pragma once

#include "fovea/kernels/linear/int8_range.h"
#include "fovea/onnx/graph.h"
#include "fovea/onnx/trace.h"

namespace fovea::onnx {

// Linear layers whose product is of 8-bit integers (see int8_product.h).
struct Int8Layers {
  std::map<std::string, kernels::Int8Range> inputs = {};  // by the layer's name; empty: none
  // 8, or 7: processors without VNNI add two products in 16 bits, into which those of 8 bits do not
  // fit, and programs that use them so cut off what is too large.
  int weight_bits = 8;
};

// The graph of a trace of these inputs. parameters: the model's, by name; in the graph they are
// float32 and keep their names; those that become codes have others. output_names: one for each
// output of the trace. Throws ConfigError naming the operation and the unit that uses it where the
// table has none.
Graph to_graph(const Trace& trace, const std::vector<TracedInput>& inputs,
               const std::map<std::string, at::Tensor>& parameters,
               const std::vector<std::string>& output_names, const Int8Layers& int8 = {});

}  // namespace fovea::onnx
