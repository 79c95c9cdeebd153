#include "fovea/parallel/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/nn/adaln.h"
#include "fovea/nn/block.h"
#include "fovea/nn/forward_context.h"

namespace fovea::parallel {
namespace {

using nn::UnitForward;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a unit's forward needs to run again, but for its inputs.
struct Replay : torch::CustomClassHolder {
  UnitForward forward;
  std::vector<at::Tensor> params;       // that get a gradient
  std::vector<size_t> defined;          // positions of the inputs that are tensors
  std::vector<bool> requires_gradient;  // of those
  size_t num_inputs = 0;
  nn::ForwardContext context;  // of the second run

  at::Tensor run(const at::TensorList tensors) const {
    std::vector<at::Tensor> inputs(num_inputs);
    for (size_t i = 0; i < defined.size(); ++i) inputs[defined[i]] = tensors[i];
    return forward(inputs);
  }
};
using ReplayPtr = c10::intrusive_ptr<Replay>;

// tensors: the defined inputs, then the parameters, which are inputs so that the function is on the
// tape even where no other input gets a gradient.
class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const ReplayPtr& replay, at::TensorList tensors) {
    const auto inputs = tensors.slice(0, replay->defined.size());
    ctx->save_for_backward(inputs.vec());
    ctx->saved_data["replay"] = at::IValue::make_capsule(replay);
    auto context = nn::forward_context();
    context.runs_again = true;
    const nn::ContextScope scope(std::move(context));
    return replay->run(inputs);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto capsule = ctx->saved_data.at("replay").toCapsule();
    const auto& replay = static_cast<const Replay&>(*capsule);
    variable_list inputs, wanted;
    std::vector<size_t> place;  // of each wanted one among the function's arguments
    for (const auto& saved : ctx->get_saved_variables()) {
      const bool requires_gradient = replay.requires_gradient[inputs.size()];
      inputs.push_back(saved.detach().set_requires_grad(requires_gradient));
      if (!requires_gradient) continue;
      wanted.push_back(inputs.back());
      place.push_back(inputs.size());
    }
    for (size_t i = 0; i < replay.params.size(); ++i) {
      wanted.push_back(replay.params[i]);
      place.push_back(1 + inputs.size() + i);
    }
    const at::AutoGradMode with_gradients(true);
    const nn::ContextScope scope(replay.context);
    const auto y = replay.run(inputs);
    const auto found = torch::autograd::grad({y}, wanted, {gradients[0]}, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    variable_list result(1 + inputs.size() + replay.params.size());
    for (size_t i = 0; i < found.size(); ++i) result[place[i]] = found[i];
    return result;
  }
};

at::Tensor recomputed(const nn::UnitImpl& unit, const UnitForward& forward,
                      const std::vector<at::Tensor>& inputs) {
  auto replay = c10::make_intrusive<Replay>();
  replay->forward = forward;
  replay->num_inputs = inputs.size();
  variable_list tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    replay->defined.push_back(i);
    replay->requires_gradient.push_back(inputs[i].requires_grad());
    tensors.push_back(inputs[i]);
  }
  for (const auto& param : unit.parameters()) {
    if (param.requires_grad()) replay->params.push_back(param);
  }
  tensors.insert(tensors.end(), replay->params.begin(), replay->params.end());
  const bool is_on_tape = std::any_of(tensors.begin(), tensors.end(),
                                      [](const at::Tensor& x) { return x.requires_grad(); });
  if (!at::GradMode::is_enabled() || !is_on_tape) return forward(inputs);
  replay->context = nn::forward_context().of_second_run();
  return RecomputeFunction::apply(ReplayPtr(replay), at::TensorList(tensors));
}

bool is_chosen(const torch::nn::Module& module, const std::string& what) {
  if (what == "attention") return dynamic_cast<const nn::AttentionImpl*>(&module) != nullptr;
  if (what == "mlp") return dynamic_cast<const nn::MlpImpl*>(&module) != nullptr;
  return dynamic_cast<const nn::TransformerBlockImpl*>(&module) != nullptr ||
         dynamic_cast<const nn::ConditionedBlockImpl*>(&module) != nullptr;
}

}  // namespace

void recompute_in_backward(torch::nn::Module& model, const std::string& what, int64_t every) {
  if (what == "none") return;
  int64_t num_found = 0;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (!is_chosen(*module, what)) continue;
    num_found += 1;
    if (what == "every_n" && num_found % every != 0) continue;
    auto& unit = dynamic_cast<nn::UnitImpl&>(*module);
    unit.around_forward.insert(
        unit.around_forward.begin(),
        [&unit](const UnitForward& forward, const std::vector<at::Tensor>& inputs) {
          return recomputed(unit, forward, inputs);
        });
  }
  if (num_found == 0 || (what == "every_n" && num_found < every)) {
    fail<ConfigError>(
        "parallel.recompute: found {}, but the model has {} of such units; set none{}",
        what == "every_n" ? fmt::format("every_n with {} blocks", every) : what, num_found,
        what == "every_n" ? "" : ", or block where attention and MLP are one (parallel_scaling)");
  }
}

}  // namespace fovea::parallel
