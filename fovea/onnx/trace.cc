#include "fovea/onnx/trace.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <unordered_map>

#include "fovea/core/error.h"

namespace fovea::onnx {
namespace {

namespace jit = torch::jit;

// Note [Tracing in float64]
// The kernels of fovea/kernels have fast paths for float32 and bfloat16 that work on raw memory, of
// which a tracer sees nothing. In float64 all of them are made of libtorch's operations, which it
// does see. Values do not matter: every parameter is one zero, seen as a tensor of its shape.

// While alive, the model's parameters are float64 and take no memory.
class WithoutValues {
 public:
  explicit WithoutValues(models::Model& model) {
    const at::NoGradGuard no_grad;
    for (const auto& item : model.named_parameters()) {
      auto& parameter = item.value();
      kept_.push_back({parameter, parameter.detach(), parameter.requires_grad(),
                       parameter.unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr()});
      parameter.requires_grad_(false);
      const auto options = at::TensorOptions().dtype(at::kDouble);
      parameter.set_data(at::zeros({1}, options).expand(parameter.sizes()));
    }
  }
  ~WithoutValues() {
    for (auto& kept : kept_) {
      kept.parameter.set_data(kept.value);
      if (kept.hanging) kept.parameter.unsafeGetTensorImpl()->set_backend_meta(kept.hanging);
      kept.parameter.requires_grad_(kept.requires_grad);
    }
  }
  WithoutValues(const WithoutValues&) = delete;
  WithoutValues& operator=(const WithoutValues&) = delete;

 private:
  struct Kept {
    at::Tensor parameter, value;
    bool requires_grad;
    c10::intrusive_ptr<c10::BackendMeta> hanging;  // on the parameter (kernels::WeightCopies)
  };
  std::vector<Kept> kept_;
};

// While alive, calls are traced into `graph`, each in the scope of the unit that makes it.
class TracingScope {
 public:
  explicit TracingScope(models::Model& model)
      : state_(std::make_shared<jit::tracer::TracingState>()) {
    state_->graph = std::make_shared<jit::Graph>();
    for (auto* unit : nn::units_of(model).values()) {
      units_.push_back(unit);
      unit->before_forward.emplace_back([this](const nn::UnitImpl& current) {
        paths_.push_back(current.path());
        enter(current.path());
      });
      unit->after_forward.emplace_back([this](const nn::UnitImpl&) {
        paths_.pop_back();
        enter(paths_.empty() ? "" : paths_.back());
      });
    }
    jit::tracer::setTracingState(state_);
  }
  ~TracingScope() {
    jit::tracer::setTracingState(nullptr);
    for (auto* unit : units_) {
      unit->before_forward.pop_back();
      unit->after_forward.pop_back();
    }
  }
  TracingScope(const TracingScope&) = delete;
  TracingScope& operator=(const TracingScope&) = delete;

  jit::tracer::TracingState& state() { return *state_; }
  const std::shared_ptr<jit::Graph>& graph() { return state_->graph; }

 private:
  void enter(const std::string& path) {
    const auto root = c10::make_intrusive<jit::Scope>();
    state_->graph->set_current_scope(path.empty() ? root : root->push(c10::Symbol::scope(path)));
  }

  std::shared_ptr<jit::tracer::TracingState> state_;
  std::vector<nn::UnitImpl*> units_;
  std::vector<std::string> paths_;
};

Sizes fixed_sizes(at::IntArrayRef values) {
  Sizes sizes;
  for (const auto value : values) sizes.push_back({.fixed = value});
  return sizes;
}

// libtorch's graph as a Trace of fixed sizes.
class GraphReader {
 public:
  ValueId add(const jit::Value* value, std::string parameter = {}) {
    const auto type = value->type()->cast<c10::TensorType>();
    Value read{.parameter = std::move(parameter)};
    if (type && type->sizes().concrete_sizes()) {
      read.shape = fixed_sizes(*type->sizes().concrete_sizes());
    }
    if (type && type->scalarType()) read.dtype = *type->scalarType();
    return add(value, std::move(read));
  }

  void read_calls(jit::Graph& graph) {
    for (auto* node : graph.nodes()) {
      if (node->kind().is_aten()) read_call(*node);
    }
  }

  ValueId of(const jit::Value* value) {
    const auto known = ids_.find(value);
    if (known != ids_.end()) return known->second;
    const auto constant = jit::toIValue(value);
    if (constant && constant->isTensor()) {
      const auto tensor = constant->toTensor();
      return add(value, Value{.shape = fixed_sizes(tensor.sizes()),
                              .dtype = tensor.scalar_type(),
                              .parameter = {},
                              .constant = tensor});
    }
    fail("an output of {} was used that the trace does not have",
         value->node()->kind().toQualString());
  }

  Trace trace;

 private:
  ValueId add(const jit::Value* value, Value read) {
    const ValueId id{trace.values.size()};
    trace.values.push_back(std::move(read));
    ids_[value] = id;
    return id;
  }

  Argument argument(const jit::Value* value) {
    if (ids_.contains(value)) return ids_.at(value);
    if (value->node()->kind() == c10::prim::ListConstruct) return list(*value->node());
    const auto constant = jit::toIValue(value);
    if (!constant) fail("{} was not read before its use", value->node()->kind().toQualString());
    if (constant->isNone()) return {};
    if (constant->isTensor()) return of(value);
    if (constant->isBool()) return constant->toBool();
    if (constant->isInt()) return Size{.fixed = constant->toInt()};
    if (constant->isDouble()) return constant->toDouble();
    if (constant->isString()) return constant->toStringRef();
    if (constant->isIntList()) return fixed_sizes(constant->toIntVector());
    return {};  // devices, layouts and generators, which no result depends on
  }

  Argument list(const jit::Node& node) {
    const auto element = node.output()->type()->containedType(0);
    if (element->isSubtypeOf(*c10::TensorType::get())) {
      std::vector<ValueId> ids;
      for (const auto* input : node.inputs()) ids.push_back(of(input));
      return ids;
    }
    Sizes sizes;
    for (const auto* input : node.inputs()) {
      const auto constant = jit::toIValue(input);
      if (!constant || !constant->isInt()) return {};
      sizes.push_back({.fixed = constant->toInt()});
    }
    return sizes;
  }

  void read_call(jit::Node& node) {
    Call call{.name = node.kind().toQualString(), .path = path_of(node)};
    const auto& schema = node.schema().arguments();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      call.arguments[schema[i].name()] = argument(node.inputs()[i]);
    }
    for (const auto* output : node.outputs()) {
      if (output->type()->kind() != c10::TypeKind::ListType) {
        call.outputs.push_back(add(output));
        continue;
      }
      for (const auto& use : output->uses()) {  // the list is taken apart at once
        for (const auto* element : use.user->outputs()) call.outputs.push_back(add(element));
      }
    }
    trace.calls.push_back(std::move(call));
  }

  static std::string path_of(jit::Node& node) {
    const auto scope = node.scope();
    return scope && !scope->isRoot() && !scope->isBlank() ? scope->name().toUnqualString() : "";
  }

  std::unordered_map<const jit::Value*, ValueId> ids_;
};

Trace trace_once(models::Model& model, const TracedForward& forward,
                 const std::vector<TracedInput>& inputs, int64_t batch_size) {
  std::vector<at::Tensor> given;
  for (const auto& input : inputs) {
    auto shape = input.sides;
    shape.insert(shape.begin(), batch_size);
    const auto kind = input.dtype == at::kFloat ? at::kDouble : input.dtype;
    given.push_back(at::zeros(shape, at::TensorOptions().dtype(kind)));
  }
  GraphReader reader;
  TracingScope scope(model);
  auto& state = scope.state();
  std::vector<jit::Value*> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    places.push_back(scope.graph()->addInput(inputs[i].name));
    state.setValue(given[i], places.back());
  }
  std::vector<std::pair<std::string, jit::Value*>> parameters;
  for (const auto& item : model.named_parameters()) {
    parameters.emplace_back(item.key(), scope.graph()->addInput());
    state.setValue(item.value(), parameters.back().second);
  }
  const auto outputs = forward(given);
  for (const auto* place : places) reader.trace.inputs.push_back(reader.add(place));
  for (const auto& [name, value] : parameters) reader.add(value, name);
  reader.read_calls(*scope.graph());
  for (const auto& output : outputs)
    reader.trace.outputs.push_back(reader.of(state.getValue(output)));
  return std::move(reader.trace);
}

constexpr int64_t kOneBatch = 2, kOtherBatch = 3;

[[noreturn]] void fail_on_batch(const std::string& where) {
  fail<ConfigError>(
      "{} depends on the batch size in a way that cannot be written down; export a fixed batch "
      "size",
      where);
}

Size merged(Size one, Size other, const std::string& where) {
  if (one.fixed == other.fixed) return one;
  const int64_t batches = one.fixed / kOneBatch;
  if (batches * kOneBatch != one.fixed || batches * kOtherBatch != other.fixed) {
    fail_on_batch(where);
  }
  return {.fixed = 0, .batches = batches};
}

void merge(Sizes& one, const Sizes& other, const std::string& where) {
  if (one.size() != other.size()) fail_on_batch(where);
  for (size_t i = 0; i < one.size(); ++i) one[i] = merged(one[i], other[i], where);
}

void merge(Argument& one, const Argument& other, const std::string& where) {
  if (one.index() != other.index()) fail_on_batch(where);
  if (auto* size = std::get_if<Size>(&one)) {
    *size = merged(*size, std::get<Size>(other), where);
  } else if (auto* sizes = std::get_if<Sizes>(&one)) {
    merge(*sizes, std::get<Sizes>(other), where);
  } else if (const auto* number = std::get_if<double>(&one)) {
    if (*number != std::get<double>(other)) fail_on_batch(where);
  }
}

// What differs between the two is a multiple of the batch size.
Trace merged(Trace one, const Trace& other) {
  if (one.calls.size() != other.calls.size() || one.values.size() != other.values.size()) {
    fail_on_batch("the list of operations");
  }
  for (size_t i = 0; i < one.calls.size(); ++i) {
    auto& call = one.calls[i];
    const auto& twin = other.calls[i];
    const auto where = fmt::format("{} in '{}'", call.name, call.path);
    if (call.name != twin.name || call.arguments.size() != twin.arguments.size()) {
      fail_on_batch(where);
    }
    for (auto& [name, argument] : call.arguments) merge(argument, twin.arguments.at(name), where);
  }
  for (size_t i = 0; i < one.values.size(); ++i) {
    merge(one.values[i].shape, other.values[i].shape, "a shape");
  }
  return one;
}

}  // namespace

Trace trace_forward(models::Model& model, const TracedForward& forward,
                    const std::vector<TracedInput>& inputs, std::optional<int64_t> batch_size) {
  const at::NoGradGuard no_grad;
  const WithoutValues without_values(model);
  if (batch_size) return trace_once(model, forward, inputs, *batch_size);
  return merged(trace_once(model, forward, inputs, kOneBatch),
                trace_once(model, forward, inputs, kOtherBatch));
}

}  // namespace fovea::onnx
