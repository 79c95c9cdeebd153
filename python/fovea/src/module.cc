// fovea._core: what the Python package `fovea` is written on. `import torch` comes before it.
#include "fovea/kernels/cpu_allocator.h"
#include "fovea/kernels/kernel_paths.h"
#include "python/fovea-data/src/errors.h"
#include "python/fovea/src/bindings.h"
#include "python/fovea/src/torch_errors.h"

NB_MODULE(_core, module) {
  module.doc() = "What fovea is written on in C++; no interface of its own.";
  nanobind::set_leak_warnings(false);  // a model in a global variable is none
  fovea::python::translate_errors();
  fovea::python::translate_torch_errors();
  module.def("start", [] {
    fovea::kernels::start_kernel_paths();
    fovea::kernels::use_caching_cpu_allocator();
  });
  fovea::python::bind_model(module);
  fovea::python::bind_operators(module);
  fovea::python::bind_predictor(module);
  fovea::python::bind_training(module);
  fovea::python::bind_run(module);
  fovea::python::bind_own_parts(module);
}
