// A model of fovea/models for Python: its parameters as torch.nn.Parameter, its forward pass under
// libtorch's autograd.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/models/registry.h"
#include "fovea/models/timm_weights.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/recipe/model_recipe.h"
#include "fovea/train/session.h"
#include "python/fovea/src/bindings.h"
#include "python/fovea/src/model_call.h"
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

  at::Tensor call(const std::string& function, const at::Tensor& x,
                  std::optional<uint64_t> seed) const {
    return call_model(*model_, function, x, seed);
  }

  std::vector<at::Tensor> call_blocks(const at::Tensor& x, const std::vector<int64_t>& blocks,
                                      bool with_norm, std::optional<uint64_t> seed) const {
    return python::call_blocks(*model_, x, blocks, with_norm, seed);
  }

  void recompute_blocks(bool is_on) const { python::recompute_blocks(*model_, is_on); }

 private:
  static std::vector<std::pair<std::string, at::Tensor>> pairs_of(const models::Model& model) {
    std::vector<std::pair<std::string, at::Tensor>> pairs;
    for (const auto& item : model.named_parameters()) pairs.emplace_back(item.key(), item.value());
    return pairs;
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
      .def("layer_id",
           [](const PythonModel& m, const std::string& name) { return m.model().layer_id(name); })
      .def_prop_ro("embed_dim",
                   [](const PythonModel& m) { return vit_of(m.model()).config().embed_dim; })
      .def_prop_ro(
          "num_prefix_tokens",
          [](const PythonModel& m) { return vit_of(m.model()).config().num_prefix_tokens(); })
      .def("token_grid",
           [](const PythonModel& m, const std::vector<int64_t>& sides) {
             return m.model().token_grid(sides);
           })
      .def("recompute_blocks", &PythonModel::recompute_blocks)
      .def("call_blocks", &PythonModel::call_blocks, nb::arg("x"), nb::arg("blocks"),
           nb::arg("with_norm"), nb::arg("seed").none(), nb::call_guard<nb::gil_scoped_release>())
      .def("call", &PythonModel::call, nb::arg("function"), nb::arg("x"), nb::arg("seed").none(),
           nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace fovea::python
