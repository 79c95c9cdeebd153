// ONNX files read back, and run: the meaning of each operator in a line or two of libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace fovea::onnx::testing {

struct FileAttribute {
  int64_t integer = 0;
  float real = 0;
  std::string text;
  std::vector<int64_t> integers;
};

struct FileNode {
  std::string op_type, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, FileAttribute> attributes;
};

struct FilePort {
  std::string name;
  std::vector<std::string> shape;  // "3", or "batch"
  at::ScalarType dtype = at::kFloat;
  std::string help;
};

struct OnnxFile {
  int64_t ir_version = 0, opset = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
  std::vector<FileNode> nodes;
  std::map<std::string, at::Tensor> initializers;
  std::vector<FilePort> inputs, outputs;

  // path: of the model; values in another file are read from beside it.
  static OnnxFile read(const std::string& path);

  // All outputs, by name. Throws std::runtime_error for an operator that is not known, or an input
  // that no node before makes.
  std::map<std::string, at::Tensor> run(const std::map<std::string, at::Tensor>& given) const;
  int64_t count(const std::string& op_type) const;
};

}  // namespace fovea::onnx::testing
