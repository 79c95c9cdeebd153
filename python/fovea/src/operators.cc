// What the operators of _operators.py compute.
//
// Note [A model as an operator]
// What traces a program in Python (torch.compile, torch.export) sees operators and their shapes. A
// whole pass of a model is one: a function of what the model is made of, its parameters and its
// input, whose kernels stay as they are fused. For each call the model is built anew on the meta
// device, which costs a part of a millisecond, and given the parameters of the call; so calls share
// nothing. What autograd records of a pass hangs on a tensor, the tape: who saves it for backward
// keeps the activations, and they go with it.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/ranges.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/graph_task.h>

#include <memory>
#include <set>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/nn/give_data.h"
#include "fovea/train/recipe/model_recipe.h"
#include "python/fovea/src/bindings.h"
#include "python/fovea/src/model_call.h"
#include "python/fovea/src/tensors.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;

// What backward needs of a pass.
struct Tape {
  at::Tensor output;               // with its graph
  std::vector<at::Tensor> leaves;  // that get gradients
  models::ModelPtr model;          // nodes of the graph call into it
  uint8_t byte = 0;                // of the tensor
};

void release_tape(void* tape) { delete static_cast<Tape*>(tape); }

at::Tensor tensor_of_tape(std::unique_ptr<Tape> tape) {
  auto* owned = tape.release();
  return at::for_blob(&owned->byte, {1})
      .context(owned, release_tape)
      .options(at::kByte)
      .make_tensor();
}

const Tape& tape_of(const at::Tensor& tensor) {
  const auto* tape = tensor.storage().data_ptr().cast_context<Tape>(release_tape);
  FOVEA_CHECK(tape != nullptr,
              "fovea::model_backward: the tape is a copy, or of a pass without gradients; expected "
              "the very tensor that fovea::model gave: hooks that move saved tensors elsewhere "
              "have to leave tensors of one byte as they are");
  return *tape;
}

// An operator's kernel runs below autograd, which is to record what this one calls.
c10::impl::LocalDispatchKeySet keys_with_autograd() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.excluded_ = keys.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  return keys;
}

void give_values(const models::Model& model, const std::vector<at::Tensor>& values,
                 const c10::Device& device) {
  const auto named = model.named_parameters();
  FOVEA_CHECK(values.size() == named.size(),
              "{} parameters for a model of {}; expected all of them", values.size(), named.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& value = values[i];
    const auto& parameter = named[i].value();
    FOVEA_CHECK(value.sizes() == parameter.sizes() && value.scalar_type() == at::kFloat &&
                    value.device() == device,
                "{}: found [{}] {} on {}; expected [{}] float32 on {}, where the input is",
                named[i].key(), fmt::join(value.sizes(), ", "), c10::toString(value.scalar_type()),
                value.device().str(), fmt::join(parameter.sizes(), ", "), device.str());
    nn::give_data(parameter, value.detach().contiguous());
    parameter.set_requires_grad(false);
  }
}

// A model without values, from what create_model was told.
class ModelStructure {
 public:
  ModelStructure(const std::string& name, const std::vector<std::string>& overrides,
                 bool recomputes_blocks)
      : config_(train::recipe_of_model(name, overrides).model),
        recomputes_blocks_(recomputes_blocks) {}

  // Of one sample; sides: of the input, without the batch. Nothing is computed.
  std::vector<int64_t> output_shape(const std::string& function, std::vector<int64_t> sides) const {
    // Whoever traces in Python has no part in it.
    const c10::impl::ExcludeDispatchKeyGuard without_python(
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                             c10::DispatchKey::PythonDispatcher, c10::DispatchKey::Functionalize}));
    const at::NoGradGuard no_grad;
    sides.insert(sides.begin(), 1);
    const auto x = at::empty(sides, at::TensorOptions().dtype(at::kFloat).device(at::kMeta));
    return call_model(*build(), function, x, {}).sizes().slice(1).vec();
  }

  // parameters: in the order of the model's. wanted: which get gradients, 0 the input, 1 the first
  // parameter ...; none: nothing is recorded. -> the output and the tape.
  std::pair<at::Tensor, at::Tensor> run(const std::string& function, const at::Tensor& x,
                                        const std::vector<at::Tensor>& parameters,
                                        std::optional<uint64_t> seed,
                                        const std::vector<int64_t>& wanted) const {
    const auto model = build();
    give_values(*model, parameters, x.device());
    const auto input = x.detach();
    if (wanted.empty()) {
      const at::NoGradGuard no_grad;
      return {call_model(*model, function, input, seed).contiguous(), at::zeros({1}, at::kByte)};
    }
    const c10::impl::ForceDispatchKeyGuard recording(keys_with_autograd());
    const at::AutoGradMode with_grad(true);
    auto tape = std::make_unique<Tape>();
    tape->model = model;
    const auto leaves = model->parameters();
    for (const auto i : wanted) {
      auto leaf = i == 0 ? input : leaves.at(static_cast<size_t>(i - 1));
      tape->leaves.push_back(leaf.set_requires_grad(true));
    }
    tape->output = call_model(*model, function, input, seed);
    FOVEA_CHECK(tape->output.requires_grad(),
                "fovea::model: {} depends on none of the {} tensors that gradients are wanted of; "
                "expected one that it does, or none",
                function, wanted.size());
    const auto output = tape->output.detach().contiguous();
    return {output, tensor_of_tape(std::move(tape))};
  }

 private:
  models::ModelPtr build() const {
    auto model = models::build_model(config_, at::kMeta);
    if (recomputes_blocks_) recompute_blocks(*model, true);
    return model;
  }

  models::ModelConfig config_;
  bool recomputes_blocks_;
};

// An operator's results share memory with nothing: what autograd gives may be views of one tensor.
std::vector<at::Tensor> apart(std::vector<at::Tensor> tensors, const at::Tensor& given) {
  std::set<const c10::StorageImpl*> taken = {given.storage().unsafeGetStorageImpl()};
  for (auto& tensor : tensors) {
    tensor = tensor.contiguous();
    if (!taken.insert(tensor.storage().unsafeGetStorageImpl()).second) tensor = tensor.clone();
  }
  return tensors;
}

// Of the leaves that were wanted, in their order: zeros where the output does not depend on one.
std::vector<at::Tensor> gradients_of(const at::Tensor& d_output, const at::Tensor& tape_tensor) {
  const auto& tape = tape_of(tape_tensor);
  // That of the backward pass which this is a part of: without it activations are freed on the way.
  const bool keeps_graph = torch::autograd::get_current_graph_task_keep_graph();
  const c10::impl::ForceDispatchKeyGuard recorded(keys_with_autograd());
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  auto gradients = torch::autograd::grad({tape.output}, tape.leaves, {d_output}, keeps_graph,
                                         /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(tape.leaves[i].detach());
  }
  return apart(std::move(gradients), d_output);
}

}  // namespace

void bind_operators(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> without_gil;
  nb::class_<ModelStructure>(module, "ModelStructure")
      .def(nb::init<std::string, std::vector<std::string>, bool>())
      .def("output_shape", &ModelStructure::output_shape, without_gil)
      .def("run", &ModelStructure::run, nb::arg("function"), nb::arg("x"), nb::arg("parameters"),
           nb::arg("seed").none(), nb::arg("wanted"), without_gil);
  module.def("gradients_of", gradients_of, without_gil);
}

}  // namespace fovea::python
