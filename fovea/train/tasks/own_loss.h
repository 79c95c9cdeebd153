// Losses of classification from outside of this library: once registered, a recipe names one with
// `task: {loss: own, own_loss: NAME}`.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace fovea::train {

// logits: [B, C], labels: [B] int64 or targets [B, C] float32 -> [B] float32, with a graph.
using OwnLoss = std::function<at::Tensor(const at::Tensor& logits, const at::Tensor& labels)>;

// To be called before a recipe is read, from one thread. A name that is there already stands for
// this one from now on.
void register_loss(const std::string& name, OwnLoss loss);

// Throws ConfigError: nobody has registered the name.
const OwnLoss& own_loss(const std::string& name);

// What it gives of these. Throws Error where that is not [B] float32.
at::Tensor own_losses(const std::string& name, const at::Tensor& logits, const at::Tensor& labels);

}  // namespace fovea::train
