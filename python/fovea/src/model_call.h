// A forward pass of a model, as Python asks for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/models/vit.h"

namespace fovea::python {

// function: "forward"; of a ViT also "features", "head" and "pre_logits" (vit.h: forward_features,
// and forward_head without and with pre_logits). seed: what a training pass draws its drops from;
// none: a pass in evaluation mode. Activations have the dtype of x, under autocast, too: its casts
// are left out. Throws ConfigError for a part of a model that is no ViT.
at::Tensor call_model(models::Model& model, const std::string& function, const at::Tensor& x,
                      std::optional<uint64_t> seed);

// The tokens [B, N, D] after each of these blocks of a ViT, with_norm: through its final norm; then
// those of forward_features. blocks ascend. Throws ConfigError as call_model, and where patches are
// dropped, which leaves no grid of them.
std::vector<at::Tensor> call_blocks(models::Model& model, const at::Tensor& x,
                                    const std::vector<int64_t>& blocks, bool with_norm,
                                    std::optional<uint64_t> seed);

// Whether each block runs again in backward in place of keeping its activations. Same bits.
void recompute_blocks(models::Model& model, bool is_on);

// Throws ConfigError where it is none.
const models::Vit& vit_of(const models::Model& model);

}  // namespace fovea::python
