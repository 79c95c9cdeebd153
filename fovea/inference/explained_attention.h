// Which attention of a model shows what it looks at, and where its tokens lie in the input.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "fovea/inference/explain.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::inference {

struct ExplainedAttention {
  // [1, H, N, N] each, first block first; of differential attention the difference that acts, of
  // attentions side by side the heads of all.
  std::vector<at::Tensor> blocks;
  TokenLayout layout;
  // [1, C, sides], what the model saw where that is not the batch's images: a window of them, or
  // with noise; else undefined.
  at::Tensor seen = {};
  std::vector<int64_t> window = {};  // first pixel along each side of what was seen; empty: all
};

// The attention of one sample's forward pass. Of a ViT or T2T-ViT all of it; of a model with an
// encoder that of the encoder: of a masked autoencoder with nothing masked, of a segmentation model
// on the middle window of larger inputs; of a diffusion model on the image with noise of
// `noise_level` of the time steps, without a class. Throws ConfigError: another model, a tensor for
// a model of adaptive patches.
ExplainedAttention explained_attention(const train::Inference& inference,
                                       const train::TensorBatch& batch, double noise_level);

}  // namespace fovea::inference
