// What a run folder holds, for Python.
#include <ATen/ops/tensor.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "fovea/train/report/report.h"
#include "python/fovea/src/bindings.h"
#include "python/fovea/src/tensors.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;

// [split][metric] = (steps, values).
nb::dict curves_of(const train::RunMetrics& metrics) {
  nb::dict splits;
  for (const auto& [split, curves] : metrics.curves) {
    nb::dict names;
    for (const auto& [name, curve] : curves) {
      names[name.c_str()] =
          nb::make_tuple(at::tensor(curve.x, at::kDouble), at::tensor(curve.y, at::kDouble));
    }
    splits[split.c_str()] = names;
  }
  return splits;
}

nb::dict read_run(const std::string& folder) {
  const auto run = train::read_run(folder);
  nb::dict dict;
  dict["name"] = run.name;
  dict["config"] = run.config;
  dict["config_values"] = run.config_values;
  dict["curves"] = curves_of(run.metrics);
  dict["evaluation"] = run.evaluation ? train::evaluation_to_json(*run.evaluation) : "";
  dict["notes"] = run.notes;
  return dict;
}

}  // namespace

void bind_run(nb::module_& module) {
  module.def("read_run", read_run);
  module.def("render_report", [](const std::string& folder) {
    return train::render_report(train::read_run(folder));
  });
  module.def("write_report", [](const std::string& folder, const std::string& out) {
    return train::write_report({folder}, out).string();
  });
}

}  // namespace fovea::python
