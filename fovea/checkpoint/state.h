// What a checkpoint holds.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace fovea::checkpoint {

using TensorMap = std::map<std::string, at::Tensor>;

struct State {
  TensorMap model;      // parameters by name
  TensorMap optimizer;  // moments by name
  TensorMap ema;        // averaged parameters by name; may be empty
  nlohmann::json scalars =
      nlohmann::json::object();  // step, data position, seed ...; finite numbers
};

// Copies the saved parameters into a model. Throws CheckpointError naming the first difference,
// with nothing copied, unless names and shapes are the same set.
void copy_into(torch::nn::Module& model, const TensorMap& saved);

}  // namespace fovea::checkpoint
