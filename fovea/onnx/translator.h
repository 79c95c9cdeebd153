// What the entries of the table of operations are written with.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fovea/onnx/graph.h"
#include "fovea/onnx/operators.h"
#include "fovea/onnx/trace.h"

namespace fovea::onnx {

// One call at a time: its arguments, and the nodes that stand for it.
class Translator {
 public:
  // inputs: those of the trace.
  Translator(const Trace& trace, const std::vector<TracedInput>& inputs,
             const std::map<std::string, at::Tensor>& parameters, const Int8Layers& int8);

  void begin(const Call& call);
  Graph finish(const std::vector<std::string>& output_names);

  GraphBuilder& graph() { return graph_; }

  // Arguments of the call. Throw ConfigError where one is of another kind than asked for.
  bool is_none(const std::string& name) const;
  std::string tensor(const std::string& name);  // the value's name in the graph
  std::string tensor_or_number(const std::string& name);
  // A parameter of the model: its name there, empty for another value, and its values.
  std::string parameter_name(const std::string& name) const { return value(name).parameter; }
  const at::Tensor& parameter(const std::string& name) const;
  std::vector<std::string> tensors(const std::string& name);
  int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  double number_or(const std::string& name, double otherwise) const;
  bool flag(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name) const;
  // An integer that counts the sides of `of`, from the front: -1 is the last.
  int64_t side(const std::string& name, const std::string& of) const;
  const Sizes& shape(const std::string& name) const;
  at::ScalarType dtype(const std::string& name) const;

  const Int8Layers& int8() const { return int8_; }

  size_t num_outputs() const { return call_->outputs.size(); }
  const Sizes& output_shape(size_t i = 0) const;
  at::ScalarType output_dtype() const;

  // What the call's outputs are in the graph.
  void set(const std::string& name, size_t i = 0);
  // Throws ConfigError: the call is one that ONNX, or this table, cannot say.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const Argument& argument(const std::string& name) const;
  const Value& value(const std::string& name) const;
  std::string name_of(ValueId id);

  const Trace& trace_;
  const std::vector<TracedInput>& inputs_;
  const std::map<std::string, at::Tensor>& parameters_;
  const Int8Layers& int8_;
  GraphBuilder graph_;
  std::map<size_t, std::string> names_;
  const Call* call_ = nullptr;
};

using Operations = std::map<std::string, std::function<void(Translator&)>>;

Operations shape_operations();
Operations arithmetic_operations();
Operations layer_operations();

}  // namespace fovea::onnx
