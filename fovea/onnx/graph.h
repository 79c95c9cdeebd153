// An ONNX graph as plain data, and what builds it up.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/onnx/trace.h"

namespace fovea::onnx {

// The operators are those of this version of the standard, which ONNX Runtime reads since 1.12.
constexpr int64_t kOpset = 17;

using AttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

struct Node {
  std::string op_type;  // "MatMul"
  std::string name;
  std::vector<std::string> inputs;  // "" for one that is left out
  std::vector<std::string> outputs;
  Attributes attributes = {};
};

struct Initializer {
  std::string name;
  at::Tensor value;  // contiguous, on the CPU, float32, int64, bool, int8 or uint8
};

struct Port {
  std::string name;
  Sizes shape;                        // sizes that are not fixed are called "batch"
  at::ScalarType dtype = at::kFloat;  // or at::kLong, at::kBool
  std::string help = {};
};

// TensorProto.DataType: of float32, int64, bool, int8 and uint8.
int64_t number_of_type(at::ScalarType type);

struct Graph {
  std::vector<Node> nodes;
  std::vector<Initializer> initializers;
  std::vector<Port> inputs, outputs;
};

class GraphBuilder {
 public:
  // first_input: its first side is the batch.
  explicit GraphBuilder(std::string first_input) : first_input_(std::move(first_input)) {}

  // The unit that nodes are named after from here on.
  void enter(const std::string& path) { path_ = path; }

  // Adds a node and returns its outputs' names.
  std::vector<std::string> add(const std::string& op_type, std::vector<std::string> inputs,
                               size_t num_outputs, Attributes attributes = {});
  // The same for one output.
  std::string add(const std::string& op_type, std::vector<std::string> inputs,
                  Attributes attributes = {});

  // Once for each name.
  void add_initializer(const std::string& name, const at::Tensor& value);
  // Constants, each kept once: a vector of integers, an integer or a number without sides.
  std::string integers(const std::vector<int64_t>& values);
  std::string index(int64_t value);
  std::string number(double value);
  // A vector of sizes; where it depends on the batch it is computed from the input.
  std::string sizes(const Sizes& values);

  // Numbers in another type.
  std::string cast(const std::string& value, at::ScalarType to);

  // Without inputs, nodes and initialisers that no output needs. outputs: name of the value, name
  // that it gets, shape.
  Graph finish(const std::vector<Port>& inputs,
               const std::vector<std::tuple<std::string, std::string, Sizes>>& outputs);

 private:
  std::string constant(const std::string& name, const at::Tensor& value);
  std::string unique(const std::string& name);

  std::string first_input_, path_, batch_;
  Graph graph_;
  std::map<std::string, int64_t> name_counts_;
  std::set<std::string> initializer_names_;
  std::map<std::string, std::string> constants_;
};

}  // namespace fovea::onnx
