// A forward pass of a model, as Python asks for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "fovea/models/model.h"

namespace fovea::python {

// function: "forward"; of a ViT also "features", "head" and "pre_logits" (vit.h: forward_features,
// and forward_head without and with pre_logits). seed: what a training pass draws its drops from;
// none: a pass in evaluation mode. Activations have the dtype of x, under autocast, too: its casts
// are left out. Throws ConfigError for a part of a model that is no ViT.
at::Tensor call_model(models::Model& model, const std::string& function, const at::Tensor& x,
                      std::optional<uint64_t> seed);

}  // namespace fovea::python
