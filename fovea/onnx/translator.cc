#include "fovea/onnx/translator.h"

#include <fmt/format.h>

#include "fovea/core/error.h"

namespace fovea::onnx {

Translator::Translator(const Trace& trace, const std::vector<TracedInput>& inputs,
                       const std::map<std::string, at::Tensor>& parameters, const Int8Layers& int8)
    : trace_(trace),
      inputs_(inputs),
      parameters_(parameters),
      int8_(int8),
      graph_(inputs.front().name) {
  for (size_t i = 0; i < inputs.size(); ++i) names_[trace.inputs[i].index] = inputs[i].name;
}

void Translator::begin(const Call& call) {
  call_ = &call;
  graph_.enter(call.path);
}

Graph Translator::finish(const std::vector<std::string>& output_names) {
  std::vector<std::tuple<std::string, std::string, Sizes>> outputs;
  for (size_t i = 0; i < trace_.outputs.size(); ++i) {
    const auto id = trace_.outputs[i];
    outputs.emplace_back(name_of(id), output_names.at(i), trace_.values[id.index].shape);
  }
  std::vector<Port> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs.push_back({.name = inputs_[i].name,
                      .shape = trace_.values[trace_.inputs[i].index].shape,
                      .dtype = inputs_[i].dtype,
                      .help = inputs_[i].help});
  }
  return graph_.finish(inputs, outputs);
}

void Translator::refuse(const std::string& what) const {
  fail<ConfigError>(
      "{} of '{}': {}, which the export to ONNX does not know; export the weights (--to "
      "safetensors)",
      call_->name, call_->path, what);
}

const Argument& Translator::argument(const std::string& name) const {
  static const Argument none;
  const auto found = call_->arguments.find(name);
  return found == call_->arguments.end() ? none : found->second;
}

bool Translator::is_none(const std::string& name) const {
  return std::holds_alternative<std::monostate>(argument(name));
}

std::string Translator::name_of(ValueId id) {
  const auto known = names_.find(id.index);
  if (known != names_.end()) return known->second;
  const auto& value = trace_.values[id.index];
  std::string name = value.parameter;
  if (!name.empty()) {
    graph_.add_initializer(name, parameters_.at(name));
  } else if (value.constant.defined()) {
    name = fmt::format("constant.tensor_{}", id.index);
    const bool is_bool = value.constant.scalar_type() == at::kBool;
    const auto kind = value.constant.is_floating_point() ? at::kFloat : at::kLong;
    graph_.add_initializer(name, value.constant.to(is_bool ? at::kBool : kind));
  } else {
    refuse(fmt::format("value {} has no source", id.index));
  }
  return names_[id.index] = name;
}

const Value& Translator::value(const std::string& name) const {
  const auto* id = std::get_if<ValueId>(&argument(name));
  if (id == nullptr) refuse(fmt::format("argument '{}' is no tensor", name));
  return trace_.values[id->index];
}

const at::Tensor& Translator::parameter(const std::string& name) const {
  return parameters_.at(value(name).parameter);
}

std::string Translator::tensor(const std::string& name) {
  const auto* id = std::get_if<ValueId>(&argument(name));
  if (id == nullptr) refuse(fmt::format("argument '{}' is no tensor", name));
  return name_of(*id);
}

std::string Translator::tensor_or_number(const std::string& name) {
  return std::holds_alternative<ValueId>(argument(name)) ? tensor(name)
                                                         : graph_.number(number(name));
}

std::vector<std::string> Translator::tensors(const std::string& name) {
  const auto* ids = std::get_if<std::vector<ValueId>>(&argument(name));
  if (ids == nullptr) refuse(fmt::format("argument '{}' is no list of tensors", name));
  std::vector<std::string> names;
  for (const auto id : *ids) names.push_back(name_of(id));
  return names;
}

int64_t Translator::integer(const std::string& name) const {
  const auto* size = std::get_if<Size>(&argument(name));
  if (size == nullptr || !size->is_fixed()) {
    refuse(fmt::format("argument '{}' is no fixed integer", name));
  }
  return size->fixed;
}

double Translator::number(const std::string& name) const {
  if (const auto* real = std::get_if<double>(&argument(name))) return *real;
  return static_cast<double>(integer(name));
}

double Translator::number_or(const std::string& name, double otherwise) const {
  return is_none(name) ? otherwise : number(name);
}

bool Translator::flag(const std::string& name) const {
  const auto* flag = std::get_if<bool>(&argument(name));
  if (flag == nullptr) refuse(fmt::format("argument '{}' is neither true nor false", name));
  return *flag;
}

std::string Translator::text(const std::string& name) const {
  const auto* text = std::get_if<std::string>(&argument(name));
  if (text == nullptr) refuse(fmt::format("argument '{}' is no text", name));
  return *text;
}

std::vector<int64_t> Translator::integers(const std::string& name) const {
  const auto* sizes = std::get_if<Sizes>(&argument(name));
  if (sizes == nullptr) refuse(fmt::format("argument '{}' is no list of integers", name));
  std::vector<int64_t> values;
  for (const auto& size : *sizes) {
    if (!size.is_fixed()) refuse(fmt::format("argument '{}' depends on the batch", name));
    values.push_back(size.fixed);
  }
  return values;
}

int64_t Translator::side(const std::string& name, const std::string& of) const {
  const auto side = integer(name);
  return side < 0 ? side + static_cast<int64_t>(shape(of).size()) : side;
}

const Sizes& Translator::shape(const std::string& name) const { return value(name).shape; }

at::ScalarType Translator::dtype(const std::string& name) const { return value(name).dtype; }

const Sizes& Translator::output_shape(size_t i) const {
  return trace_.values[call_->outputs.at(i).index].shape;
}

at::ScalarType Translator::output_dtype() const {
  return trace_.values[call_->outputs.at(0).index].dtype;
}

void Translator::set(const std::string& name, size_t i) {
  names_[call_->outputs.at(i).index] = name;
}

}  // namespace fovea::onnx
