// inference::Predictor for Python: lists of paths, bytes and tensors in, dicts of tensors out.
#include "fovea/inference/predictor.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/dataset.h"
#include "python/fovea-data/src/errors.h"
#include "python/fovea/src/bindings.h"
#include "python/fovea/src/tensors.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;
using inference::Input;
using inference::Outcome;
using inference::Predictor;

// Arrays of pixels, as image files decode to.
class PixelArrays : public data::Dataset {
 public:
  void add(at::Tensor pixels) { arrays_.push_back(std::move(pixels)); }  // [H, W, C] uint8

  int64_t size() const override { return static_cast<int64_t>(arrays_.size()); }
  void read(int64_t index, data::Sample& sample) const override {
    const auto& array = arrays_.at(static_cast<size_t>(index));
    auto& stored = sample.become<data::StoredImage>();
    stored.height = array.size(0);
    stored.width = array.size(1);
    stored.channels = array.size(2);
    stored.pixels = {array.const_data_ptr<uint8_t>(), static_cast<size_t>(array.numel())};
    sample.label = -1;
  }
  const std::vector<std::string>& class_names() const override { return no_names_; }
  int64_t num_classes() const override { return 0; }
  std::string describe(int64_t index) const override { return fmt::format("array {}", index); }

 private:
  std::vector<at::Tensor> arrays_;
  std::vector<std::string> no_names_;
};

// str: a path; bytes: a file; uint8 [H, W, C]: pixels; float32 [C, ...]: what the model sees.
std::vector<Input> inputs_of(const nb::list& objects) {
  std::vector<Input> inputs;
  const auto arrays = std::make_shared<PixelArrays>();
  for (const auto object : objects) {
    if (nb::isinstance<nb::str>(object)) {
      inputs.push_back({inference::FileInput{nb::cast<std::string>(object)}});
    } else if (nb::isinstance<nb::bytes>(object)) {
      const auto bytes = nb::cast<nb::bytes>(object);
      const auto* begin = static_cast<const uint8_t*>(bytes.data());
      inputs.push_back(
          {inference::EncodedInput{.bytes = {begin, begin + bytes.size()},
                                   .name = fmt::format("input {} (bytes)", inputs.size())}});
    } else if (const auto tensor = tensor_of(object); tensor.scalar_type() == at::kByte) {
      inputs.push_back({inference::SampleInput{.samples = arrays, .index = arrays->size()}});
      arrays->add(tensor);
    } else {
      inputs.push_back({tensor});
    }
  }
  return inputs;
}

// What `convert` makes of each answer, or the error in its place.
template <class T, class Convert>
nb::list answers_of(std::vector<Outcome<T>> outcomes, const Convert& convert) {
  nb::list answers;
  for (auto& outcome : outcomes) {
    answers.append(outcome.error ? error_object(*outcome.error)
                                 : nb::object(convert(*outcome.value)));
  }
  return answers;
}

template <class Ask>
auto without_gil(const Ask& ask) {
  const nb::gil_scoped_release released;
  return ask();
}

nb::list classes(const Predictor& predictor, const nb::list& objects) {
  const auto inputs = inputs_of(objects);
  auto outcomes = without_gil([&] { return predictor.classes(inputs); });
  return answers_of(std::move(outcomes), [](const inference::Classes& answer) {
    nb::dict dict;
    dict["scores"] = answer.scores;
    dict["of_slices"] = answer.of_slices;
    return dict;
  });
}

nb::list masks(const Predictor& predictor, const nb::list& objects) {
  const auto inputs = inputs_of(objects);
  auto outcomes = without_gil([&] { return predictor.masks(inputs); });
  return answers_of(std::move(outcomes), [](inference::Mask& answer) {
    auto& classes = answer.classes.classes;
    nb::dict dict;
    dict["classes"] = at::from_blob(classes.data(), answer.sides, at::kInt).clone();
    dict["voxels"] = answer.voxels;
    return dict;
  });
}

nb::list reconstructions(const Predictor& predictor, const nb::list& objects, int64_t first) {
  const auto inputs = inputs_of(objects);
  auto outcomes = without_gil([&] { return predictor.reconstructions(inputs, first); });
  return answers_of(std::move(outcomes), [](const inference::Reconstruction& answer) {
    nb::dict dict;
    dict["input"] = answer.input;
    dict["seen"] = answer.seen;
    dict["image"] = answer.image;
    dict["loss"] = answer.loss;
    dict["num_masked"] = answer.num_masked;
    dict["num_patches"] = answer.num_patches;
    return dict;
  });
}

nb::list features(const Predictor& predictor, const nb::list& objects) {
  const auto inputs = inputs_of(objects);
  auto outcomes = without_gil([&] { return predictor.features(inputs); });
  return answers_of(std::move(outcomes), [](const at::Tensor& answer) { return nb::cast(answer); });
}

nb::list attention(const Predictor& predictor, const nb::list& objects, double noise_level) {
  const auto inputs = inputs_of(objects);
  auto outcomes = without_gil([&] { return predictor.attention(inputs, noise_level); });
  return answers_of(std::move(outcomes), [](const inference::Attention& answer) {
    nb::dict dict;
    dict["blocks"] = answer.attention.blocks;
    dict["displayed"] = answer.displayed;
    return dict;
  });
}

at::Tensor samples(const Predictor& predictor, int64_t count, uint64_t seed,
                   std::optional<int64_t> steps, std::optional<int64_t> label) {
  return predictor.samples({.count = count, .seed = seed, .steps = steps, .label = label}).images;
}

std::unique_ptr<Predictor> load(const std::string& target, const train::InferenceOptions& options) {
  return std::make_unique<Predictor>(target, options);
}

}  // namespace

void bind_predictor(nb::module_& module) {
  nb::class_<train::InferenceOptions>(module, "InferenceOptions")
      .def(nb::init<>())
      .def_rw("model", &train::InferenceOptions::model)
      .def_rw("weights", &train::InferenceOptions::weights)
      .def_rw("checkpoint", &train::InferenceOptions::checkpoint)
      .def_rw("overrides", &train::InferenceOptions::overrides)
      .def_rw("variables", &train::InferenceOptions::variables)
      .def_rw("class_names", &train::InferenceOptions::class_names)
      .def_rw("device", &train::InferenceOptions::device)
      .def_rw("dtype", &train::InferenceOptions::dtype)
      .def_rw("int8_skip", &train::InferenceOptions::int8_skip)
      .def_rw("int8_activations", &train::InferenceOptions::int8_activations)
      .def_rw("int8_ranges", &train::InferenceOptions::int8_ranges)
      .def_rw("int8_rest", &train::InferenceOptions::int8_rest);
  module.def("load_predictor", load, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<Predictor>(module, "Predictor")
      .def_prop_ro("kind", [](const Predictor& p) { return inference::to_text(p.kind()); })
      .def_prop_ro("class_names", [](const Predictor& p) { return p.loaded().class_names; })
      .def("classes", classes)
      .def("masks", masks)
      .def("reconstructions", reconstructions)
      .def("features", features)
      .def("attention", attention)
      .def("samples", samples, nb::arg("count"), nb::arg("seed"), nb::arg("steps").none(),
           nb::arg("label").none(), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace fovea::python
