// fovea export --check: the written file, run by ONNX Runtime, beside the model.
#pragma once

#include <string>

#include "fovea/onnx/export.h"

namespace fovea::app {

struct OnnxCheck {
  double worst = 0;         // difference of a number
  double largest = 0;       // number that was expected
  std::string onnxruntime;  // its version
};

// Runs `file`, which export_model wrote of `model` with these options, on numbers that are drawn, a
// batch and single samples. Throws ConfigError where there is no Python with onnxruntime, DataError
// where the outputs are not the model's.
OnnxCheck check_onnx(models::Model& model, const std::string& file,
                     const onnx::ExportOptions& options);

}  // namespace fovea::app
