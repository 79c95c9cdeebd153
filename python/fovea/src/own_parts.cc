// Data sets, losses and metrics that are written in Python, for recipes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/own.h"
#include "fovea/train/tasks/own_loss.h"
#include "fovea/train/tasks/own_metric.h"
#include "python/fovea/src/bindings.h"
#include "python/fovea/src/tensors.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;

// An object of Python that threads without the GIL hold, copy and let go of.
std::shared_ptr<nb::object> shared(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            if (!nb::is_alive()) return;  // the interpreter has ended
            const nb::gil_scoped_acquire acquired;
            delete held;
          }};
}

// What fovea._own_parts.OpenSet says of a data set.
struct SetFacts {
  int64_t size = 0;
  bool has_volumes = false, has_masks = false;
  int64_t num_classes = 0;
  std::vector<std::string> class_names;
};

// Samples come from OpenSet.read, one at a time: Python runs in one thread.
class PythonDataset : public data::Dataset {
 public:
  PythonDataset(std::string name, std::shared_ptr<nb::object> set, SetFacts facts)
      : name_(std::move(name)), set_(std::move(set)), facts_(std::move(facts)) {}

  int64_t size() const override { return facts_.size; }
  data::SampleForm form() const override {
    return facts_.has_volumes ? data::SampleForm::kVolume : data::SampleForm::kImage;
  }
  bool has_masks() const override { return facts_.has_masks; }
  const std::vector<std::string>& class_names() const override { return facts_.class_names; }
  int64_t num_classes() const override { return facts_.num_classes; }
  std::string describe(int64_t index) const override { return fmt::format("{}[{}]", name_, index); }

  void read(int64_t index, data::Sample& sample) const override {
    const auto [array, mask, label] = read_in_python(index);
    if (facts_.has_volumes) {
      take_volume(array, sample);
    } else {
      take_image(array, sample);
    }
    sample.label = label;
    sample.mask = {};
    if (mask.defined()) {
      const auto* classes = mask.const_data_ptr<int32_t>();
      sample.mask = {.size = sample.size(), .classes = {classes, classes + mask.numel()}};
    }
  }

 private:
  struct Read {
    at::Tensor array, mask;
    int64_t label = -1;
  };

  Read read_in_python(int64_t index) const {
    const nb::gil_scoped_acquire acquired;
    try {
      const auto found = nb::cast<nb::tuple>(set_->attr("read")(index));
      const nb::object mask = found[1];
      return {.array = tensor_of(nb::object(found[0])),
              .mask = mask.is_none() ? at::Tensor() : tensor_of(mask),
              .label = nb::cast<int64_t>(found[2])};
    } catch (const nb::python_error& error) {
      fail<DataError>("{}: {}", describe(index), error.what());
    }
  }

  // array: [H, W, C] uint8
  static void take_image(const at::Tensor& array, data::Sample& sample) {
    auto& image = sample.become<data::Image>();
    image.height = array.size(0);
    image.width = array.size(1);
    image.channels = array.size(2);
    const auto* pixels = array.const_data_ptr<uint8_t>();
    image.pixels.assign(pixels, pixels + array.numel());
  }

  // array: [C, D, H, W] float32
  static void take_volume(const at::Tensor& array, data::Sample& sample) {
    auto& volume = sample.become<data::Volume>();
    volume.channels = array.size(0);
    volume.size = {.depth = array.size(1), .height = array.size(2), .width = array.size(3)};
    volume.spacing = {1, 1, 1};
    const auto* values = array.const_data_ptr<float>();
    volume.values.assign(values, values + array.numel());
  }

  std::string name_;
  std::shared_ptr<nb::object> set_;
  SetFacts facts_;
};

// open: without arguments, gives an OpenSet.
void register_dataset(const std::string& name, nb::object open) {
  data::register_dataset(name, [name, open = shared(std::move(open))] {
    const nb::gil_scoped_acquire acquired;
    const nb::object set = (*open)();
    SetFacts facts{.size = nb::cast<int64_t>(set.attr("size")),
                   .has_volumes = nb::cast<bool>(set.attr("has_volumes")),
                   .has_masks = nb::cast<bool>(set.attr("has_masks")),
                   .num_classes = nb::cast<int64_t>(set.attr("num_classes")),
                   .class_names = nb::cast<std::vector<std::string>>(set.attr("class_names"))};
    return std::make_shared<const PythonDataset>(name, shared(set), std::move(facts));
  });
}

void register_loss(const std::string& name, nb::object function) {
  train::register_loss(name, [function = shared(std::move(function))](const at::Tensor& logits,
                                                                      const at::Tensor& labels) {
    const nb::gil_scoped_acquire acquired;
    return tensor_of((*function)(logits, labels));
  });
}

// function: gives a float.
void register_metric(const std::string& name, nb::object function) {
  train::register_metric(name, [function = shared(std::move(function))](const at::Tensor& logits,
                                                                        const at::Tensor& labels) {
    const nb::gil_scoped_acquire acquired;
    return nb::cast<double>((*function)(logits, labels));
  });
}

}  // namespace

void bind_own_parts(nb::module_& module) {
  module.def("register_dataset", register_dataset);
  module.def("register_loss", register_loss);
  module.def("register_metric", register_metric);
}

}  // namespace fovea::python
