// What a checkpoint holds.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/kernels/tensor_part.h"

namespace fovea::checkpoint {

using TensorMap = std::map<std::string, at::Tensor>;

struct State {
  TensorMap model;      // parameters by name
  TensorMap optimizer;  // moments by name
  TensorMap ema;        // averaged parameters by name; may be empty
  nlohmann::json scalars =
      nlohmann::json::object();  // step, data position, seed ...; finite numbers
  // By "model", "optimizer" or "ema", by name: what is a part, where several processes share a
  // tensor out. All else is whole; so is what is loaded, but for WantedParts.
  std::map<std::string, std::map<std::string, kernels::TensorPart>> parts = {};
  std::string source = {};  // the manifest that it was read from
};

// What of a saved tensor a process needs: a part, as a tensor of these sizes.
struct WantedPart {
  kernels::TensorPart part;
  std::vector<int64_t> sizes;
};
// By "model", "optimizer" or "ema", by name. All else is wanted whole.
using WantedParts = std::map<std::string, std::map<std::string, WantedPart>>;

using Shapes = std::map<std::string, std::vector<int64_t>>;
// Throws CheckpointError naming the first difference, unless names and shapes of the saved
// parameters are those of the model.
void check_same_shapes(const Shapes& model, const Shapes& saved);

// Copies the saved parameters into a model. Throws CheckpointError naming the first difference,
// with nothing copied, unless names and shapes are the same set.
void copy_into(torch::nn::Module& model, const TensorMap& saved);

}  // namespace fovea::checkpoint
