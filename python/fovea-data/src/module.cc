// fovea.data._loader: the loader for Python. fovea/data/__init__.py is what users see of it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/data/dataset.h"
#include "python/fovea-data/src/batch_loader.h"
#include "python/fovea-data/src/errors.h"
#include "python/fovea-data/src/recipe_data.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using NoGil = nb::call_guard<nb::gil_scoped_release>;
using BadSampleTuple = std::tuple<int64_t, std::string, std::string, int64_t>;

nb::dlpack::dtype dtype_named(const std::string& name) {
  if (name == "F32") return nb::dtype<float>();
  if (name == "U8") return nb::dtype<uint8_t>();
  if (name == "I32") return nb::dtype<int32_t>();
  return nb::dtype<int64_t>();
}

// An array over the batch's own memory, which keeps the batch, `owner`.
template <class Framework>
nb::object view_of(const data::BatchArray& array, nb::handle owner) {
  const std::vector<size_t> shape(array.shape.begin(), array.shape.end());
  // nanobind copies what a framework takes with other policies.
  return nb::cast(
      nb::ndarray<Framework, nb::device::cpu>(array.bytes.data(), shape.size(), shape.data(), owner,
                                              nullptr, dtype_named(array.dtype)),
      nb::rv_policy::reference);
}

nb::object array_of(nb::handle_t<HeldBatch> self, const std::string& name,
                    const std::string& output) {
  for (const auto& array : nb::cast<const HeldBatch&>(self).arrays()) {
    if (array.name != name) continue;
    if (output == "torch") return view_of<nb::pytorch>(array, self);
    if (output == "dlpack") return view_of<nb::array_api>(array, self);
    return view_of<nb::numpy>(array, self);
  }
  return nb::none();
}

std::vector<std::string> names_of(const HeldBatch& held) {
  std::vector<std::string> names;
  for (const auto& array : held.arrays()) names.push_back(array.name);
  return names;
}

uintptr_t address_of(const HeldBatch& held, const std::string& name) {
  for (const auto& array : held.arrays()) {
    if (array.name == name) return reinterpret_cast<uintptr_t>(array.bytes.data());
  }
  return 0;
}

std::shared_ptr<BatchLoader> open_loader(const std::string& yaml, const std::string& source,
                                         std::vector<std::pair<std::string, std::string>> changes,
                                         const std::string& section, int64_t rank,
                                         int64_t world_size, std::optional<int64_t> seed,
                                         std::optional<int64_t> in_chans,
                                         std::optional<int64_t> spatial_dims, bool is_uint8,
                                         std::vector<std::string> class_names) {
  return std::make_shared<BatchLoader>(open_recipe_data({.yaml = yaml,
                                                         .source = source,
                                                         .changes = std::move(changes),
                                                         .section = section,
                                                         .rank = rank,
                                                         .world_size = world_size,
                                                         .seed = seed,
                                                         .in_chans = in_chans,
                                                         .spatial_dims = spatial_dims,
                                                         .is_uint8 = is_uint8,
                                                         .class_names = std::move(class_names)}));
}

std::vector<BadSampleTuple> bad_samples(const BatchLoader& loader) {
  std::vector<BadSampleTuple> samples;
  for (const auto& one : loader.bad_samples()) {
    samples.emplace_back(one.index, one.name, one.reason, one.times);
  }
  return samples;
}

void restore_bad_samples(BatchLoader& loader, const std::vector<BadSampleTuple>& samples) {
  std::vector<data::BadSample> restored;
  for (const auto& [index, name, reason, times] : samples) {
    restored.push_back({index, name, reason, times});
  }
  loader.restore_bad_samples(std::move(restored));
}

// What waits, without the GIL. A loader that is closed refuses before: a thread that gives the GIL
// up while the interpreter ends does not come back from C++.
template <class Result, class... Arguments>
auto without_gil(Result (BatchLoader::*call)(Arguments...)) {
  return [call](BatchLoader& loader, Arguments... arguments) {
    loader.check_open();
    const nb::gil_scoped_release released;
    return (loader.*call)(arguments...);
  };
}

void add_batch(nb::module_& m) {
  nb::class_<HeldBatch>(m, "Batch")
      .def("array", &array_of, "name"_a, "output"_a)
      .def("names", &names_of)
      .def("address", &address_of, "name"_a)
      .def("__len__", [](const HeldBatch& held) { return held.batch().size(); })
      .def_prop_ro("variables", [](const HeldBatch& held) { return held.batch().variables; })
      .def_prop_ro("mean", [](const HeldBatch& held) { return held.batch().byte_steps.mean; })
      .def_prop_ro("std", [](const HeldBatch& held) { return held.batch().byte_steps.std; })
      .def_prop_ro("set", [](const HeldBatch& held) { return held.batch().set; })
      .def_prop_ro("epoch", [](const HeldBatch& held) { return held.batch().epoch; })
      .def_prop_ro("position", [](const HeldBatch& held) { return held.batch().position; })
      .def_prop_ro("global_size", [](const HeldBatch& held) { return held.batch().global_size; });
}

void add_loader(nb::module_& m) {
  nb::class_<BatchLoader>(m, "BatchLoader")
      .def("next", without_gil(&BatchLoader::next))
      .def("seek", without_gil(&BatchLoader::seek), "position"_a)
      .def("close", &BatchLoader::close, NoGil())
      .def_prop_ro("is_closed", &BatchLoader::is_closed)
      .def_prop_ro("position", &BatchLoader::position)
      .def("start_of_epoch", &BatchLoader::start_of_epoch, "epoch"_a)
      .def("batches_of_epoch", &BatchLoader::batches_of_epoch, "epoch"_a)
      .def("epoch_at", &BatchLoader::epoch_at, "position"_a)
      .def("batches_before", &BatchLoader::batches_before, "position"_a)
      .def("bad_samples", &bad_samples, NoGil())
      .def("restore_bad_samples", &restore_bad_samples, "samples"_a, NoGil())
      .def_prop_ro("num_samples", [](const BatchLoader& l) { return l.setup().dataset->size(); })
      .def_prop_ro("num_classes",
                   [](const BatchLoader& l) { return l.setup().dataset->num_classes(); })
      .def_prop_ro("class_names",
                   [](const BatchLoader& l) { return l.setup().dataset->class_names(); })
      .def_prop_ro("has_masks", [](const BatchLoader& l) { return l.setup().dataset->has_masks(); })
      .def_prop_ro("seed", [](const BatchLoader& l) { return l.setup().options.seed; })
      .def_prop_ro("global_batch_size",
                   [](const BatchLoader& l) { return l.setup().options.global_batch_size; })
      .def(
          "describe",
          [](const BatchLoader& l, int64_t index) { return l.setup().dataset->describe(index); },
          "index"_a);
}

}  // namespace
}  // namespace fovea::python

NB_MODULE(_loader, m) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using namespace fovea::python;
  nb::set_leak_warnings(false);  // at an exit in the middle of an epoch batches may be left
  m.attr("__version__") = FOVEA_VERSION;
  translate_errors();
  add_batch(m);
  add_loader(m);
  m.def("data_keys", &data_keys);
  m.def("open_loader", &open_loader, "yaml"_a, "source"_a, "changes"_a, "section"_a, "rank"_a,
        "world_size"_a, "seed"_a.none(), "in_chans"_a.none(), "spatial_dims"_a.none(), "is_uint8"_a,
        "class_names"_a, nb::call_guard<nb::gil_scoped_release>());
}
