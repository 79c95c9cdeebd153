// What fovea._core is made of: one function for each file of classes and functions.
#pragma once

#include <nanobind/nanobind.h>

namespace fovea::python {

void bind_model(nanobind::module_& module);
void bind_operators(nanobind::module_& module);
void bind_predictor(nanobind::module_& module);
void bind_training(nanobind::module_& module);
void bind_own_parts(nanobind::module_& module);
void bind_run(nanobind::module_& module);

}  // namespace fovea::python
