// How far products of 8-bit integers move what a model gives, layer by layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/models/model.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

// The norm of the change of the model's outputs, over that of the outputs in float32.
struct Int8LayerError {
  std::string layer;
  double error = 0;  // with this layer alone in 8-bit integers
};

struct Int8Errors {
  std::vector<Int8LayerError> layers;  // every linear layer of blocks, the largest error first
  double all = 0;                      // with all but those of int8.skip
};

// One pass of `batch`, which is float32 on the CPU, for each layer. The layers are left as
// use_int8() leaves them. copies: of the model. Throws what int8_layers() throws.
Int8Errors measure_int8_errors(models::Model& model, kernels::WeightCopies& copies,
                               const std::vector<std::string>& skip, const TensorBatch& batch);

}  // namespace fovea::train
