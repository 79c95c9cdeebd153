// libtorch's operations in ONNX's: one table.
#pragma once

#include "fovea/onnx/graph.h"
#include "fovea/onnx/trace.h"

namespace fovea::onnx {

// The graph of a trace of these inputs. parameters: the model's, by name; in the graph they are
// float32 and keep their names. output_names: one for each output of the trace. Throws ConfigError
// naming the operation and the unit that uses it where the table has none.
Graph to_graph(const Trace& trace, const std::vector<TracedInput>& inputs,
               const std::map<std::string, at::Tensor>& parameters,
               const std::vector<std::string>& output_names);

}  // namespace fovea::onnx
