#include "apps/fovea/commands/export_check.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/fovea/run_program.h"
#include "apps/fovea/scratch_folder.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/program_files.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSamples = 3;
constexpr uint64_t kSeed = 1;
constexpr int kNoPackage = 9;  // exit code of the script
// Of the largest number: float32, summed in another order. In int8 that makes some codes the next
// ones, which make others so in the layers behind, until the outputs differ as much as rounding to
// codes has changed them; weights of 7 bits are themselves others than the model's.
constexpr double kTolerance = 1e-4, kInt8Tolerance = 0.1, kSevenBitTolerance = 0.2;
constexpr uint64_t kMaxAnswer = 1 << 20;  // bytes

std::string script_path() {
  const auto script =
      find_near_program({"tools/onnxruntime_check.py", "share/fovea/onnxruntime_check.py"});
  if (script) return script->string();
  fail<ConfigError>(
      "--check: onnxruntime_check.py is not found near {}; expected the source tree around the "
      "program, or share/fovea beside it",
      program_path().string());
}

void write_arrays(const std::map<std::string, at::Tensor>& arrays, const fs::path& folder) {
  for (const auto& [name, value] : arrays) {
    nn::write_tensor_file((folder / ("model." + name + ".npy")).string(),
                          {{"array", value.to(at::kFloat).contiguous()}});
  }
}

double tolerance_of(const onnx::Int8Layers& int8) {
  if (int8.inputs.empty()) return kTolerance;
  return int8.weight_bits < 8 ? kSevenBitTolerance : kInt8Tolerance;
}

}  // namespace

OnnxCheck check_onnx(models::Model& model, const std::string& file,
                     const onnx::ExportOptions& options) {
  const auto script = script_path();
  const ScratchFolder folder("export");
  // Where values lie in a file of their own, its name stands in the model's: both are linked.
  const auto target = fs::absolute(file);
  fs::create_symlink(target, folder.path() / "model.onnx");
  const fs::path data = target.string() + ".data";
  if (fs::exists(data)) fs::create_symlink(data, folder.path() / data.filename());
  const auto example =
      onnx::make_example(model, options, options.batch_size.value_or(kSamples), kSeed);
  write_arrays(example.inputs, folder.path());
  write_arrays(example.outputs, folder.path());
  const auto answer = (folder.path() / "answer.json").string();
  const auto python = python_program();
  const int code = run_program({python, script, folder.path().string()}, answer);
  if (code == kNoPackage || code < 0) {
    fail<ConfigError>(
        "--check: {} {}; expected a Python with onnxruntime (pip install onnxruntime), which "
        "FOVEA_PYTHON names. {} is written, and not checked",
        python, code < 0 ? "does not start" : "has no onnxruntime", file);
  }
  if (code != 0) fail<DataError>("--check: ONNX Runtime does not run {}; it says why above", file);
  const auto found = nlohmann::json::parse(read_file(answer, kMaxAnswer)).at("model");
  const OnnxCheck check = {found.at("worst"), found.at("largest"), found.at("onnxruntime")};
  const double tolerance = tolerance_of(options.int8);
  if (!(check.worst <= tolerance * std::max(1.0, check.largest))) {
    const bool may_be_cut = !options.int8.inputs.empty() && options.int8.weight_bits == 8;
    fail<DataError>(
        "--check: {} does not give what the model gives: ONNX Runtime {} differs by {:.2e} of "
        "numbers up to {:.3g}; expected at most {:.0e} of them. Do not use the file{}",
        file, check.onnxruntime, check.worst, check.largest, tolerance,
        may_be_cut ? " on processors without VNNI, as this one may be: --int8-weight-bits 7 is for "
                     "them"
                   : "");
  }
  return check;
}

}  // namespace fovea::app
