// A model of fovea/models for Python: its parameters as torch.nn.Parameter, its forward pass under
// libtorch's autograd.
#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/timm_weights.h"
#include "fovea/models/vit.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/recipe/model_recipe.h"
#include "fovea/train/session.h"
#include "python/fovea/src/bindings.h"
#include "python/fovea/src/tensors.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;

// The model of a name with these changes to its keys, a.b=c; with model.pretrained or init.weights
// that say so, with these weights.
models::ModelPtr make(const std::string& name, const std::vector<std::string>& overrides) {
  return train::make_model(train::recipe_of_model(name, overrides), {});
}

// Of timm's names with a tag, whose classes are those of the weights.
models::ModelPtr fetch(const std::string& name, const std::vector<std::string>& overrides) {
  return train::load_inference(name, {.overrides = overrides, .device = "cpu"}).model;
}

class PythonModel {
 public:
  explicit PythonModel(models::ModelPtr model) : model_(std::move(model)) {
    for (const auto& parameter : model_->parameters()) parameter.set_requires_grad(true);
  }

  std::vector<std::pair<std::string, at::Tensor>> parameters() const { return pairs_of(*model_); }
  const models::Model& model() const { return *model_; }

  at::Tensor forward(const at::Tensor& images, bool is_training, uint64_t seed) const {
    return run(images, is_training, seed, [&](const at::Tensor& x) { return model_->forward(x); });
  }
  at::Tensor features(const at::Tensor& images, bool is_training, uint64_t seed) const {
    return run(images, is_training, seed,
               [&](const at::Tensor& x) { return vit().forward_features(x); });
  }
  at::Tensor head(const at::Tensor& tokens, bool is_training, uint64_t seed,
                  bool pre_logits) const {
    return run(tokens, is_training, seed,
               [&](const at::Tensor& x) { return vit().forward_head(x, pre_logits); });
  }

 private:
  static std::vector<std::pair<std::string, at::Tensor>> pairs_of(const models::Model& model) {
    std::vector<std::pair<std::string, at::Tensor>> pairs;
    for (const auto& item : model.named_parameters()) pairs.emplace_back(item.key(), item.value());
    return pairs;
  }

  const models::Vit& vit() const {
    const auto* vit = dynamic_cast<const models::Vit*>(model_.get());
    if (vit == nullptr) {
      fail<ConfigError>("{}: forward_features and forward_head are a ViT's; call the model itself",
                        model_->recipe_name());
    }
    return *vit;
  }

  // The dtype of the input is that of the activations; parameters stay float32, and each product
  // casts them. So autocast is nothing but an input in its dtype, and its own casts are left out.
  template <class Forward>
  at::Tensor run(at::Tensor x, bool is_training, uint64_t seed, const Forward& forward) const {
    if (model_->is_training() != is_training) model_->train(is_training);
    const auto device = x.device().type();
    if (at::autocast::is_autocast_enabled(device)) {
      x = x.to(at::autocast::get_autocast_dtype(device));
    }
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    if (!is_training) return forward(x);
    const nn::StepScope step(seed, /*step=*/0, at::arange(x.size(0), at::kLong));
    return forward(x);
  }

  models::ModelPtr model_;
};

nb::list parameters_of(const PythonModel& model, nb::handle parameter_class) {
  nb::list list;
  for (const auto& [name, tensor] : model.parameters()) {
    list.append(nb::make_tuple(name, wrapped_as(tensor, parameter_class)));
  }
  return list;
}

// As timm's pretrained_cfg has it.
nb::dict preprocessing_of(const PythonModel& model) {
  const auto spec = model.model().input_spec();
  std::vector<int64_t> input_size = {spec.in_chans};
  input_size.insert(input_size.end(), spec.img_size.begin(), spec.img_size.end());
  nb::dict dict;
  dict["input_size"] = nb::tuple(nb::cast(input_size));
  dict["mean"] = nb::tuple(nb::cast(spec.mean));
  dict["std"] = nb::tuple(nb::cast(spec.std));
  dict["crop_pct"] = spec.crop_pct;
  dict["crop_mode"] = spec.crop_mode;
  dict["interpolation"] = spec.interpolation;
  dict["num_classes"] = model.model().num_classes();
  return dict;
}

}  // namespace

void bind_model(nb::module_& module) {
  module.def("list_models", models::list_models);
  module.def("list_pretrained", models::list_timm_weights);
  module.def(
      "make_model",
      [](const std::string& name, const std::vector<std::string>& overrides) {
        return PythonModel(make(name, overrides));
      },
      nb::call_guard<nb::gil_scoped_release>());
  module.def(
      "fetch_model",
      [](const std::string& name, const std::vector<std::string>& overrides) {
        return PythonModel(fetch(name, overrides));
      },
      nb::call_guard<nb::gil_scoped_release>());
  nb::class_<PythonModel>(module, "Model")
      .def("parameters", parameters_of)
      .def("preprocessing", preprocessing_of)
      .def("no_weight_decay", [](const PythonModel& m) { return m.model().no_weight_decay(); })
      .def_prop_ro("num_classes", [](const PythonModel& m) { return m.model().num_classes(); })
      .def_prop_ro("num_features", [](const PythonModel& m) { return m.model().num_features(); })
      .def("forward", &PythonModel::forward, nb::call_guard<nb::gil_scoped_release>())
      .def("forward_features", &PythonModel::features, nb::call_guard<nb::gil_scoped_release>())
      .def("forward_head", &PythonModel::head, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace fovea::python
