// Time steps of a diffusion process as vectors.
#pragma once

#include "fovea/kernels/elementwise/activation.h"
#include "fovea/nn/linear.h"

namespace fovea::nn {

// Order of the sines and cosines of t 10000^(-2i / width), i < width / 2.
enum class TimestepLayout {
  kInterleaved,  // sin, cos, sin, cos ... (UCF-VIT, as Vaswani et al. 2017)
  kCosSin,       // all cosines, then all sines (DiT)
};

// timesteps: [B] int64 -> [B, width] float64, so that large steps lose nothing; width is
// even.
at::Tensor timestep_features(const at::Tensor& timesteps, int64_t width, TimestepLayout layout);

struct TimestepEmbedOptions {
  int64_t width = 256;  // of the features
  int64_t dim = 0;
  TimestepLayout layout = TimestepLayout::kCosSin;
  kernels::Activation activation = kernels::Activation::kSilu;
  double drop_rate = 0.0;  // after the activation
};

// fc2(dropout(activation(fc1(features)))). timesteps: [B] int64 -> [B, dim] in `dtype`.
class TimestepEmbedImpl : public UnitImpl {
 public:
  TimestepEmbedImpl(const TimestepEmbedOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& timesteps, at::ScalarType dtype) const;
  // The same of features that are there already, [B, width] in the dtype of the embedding.
  at::Tensor embed(const at::Tensor& features) const;
  // Of time steps: [B] int64 -> [B, width] float64.
  at::Tensor features(const at::Tensor& timesteps) const {
    return timestep_features(timesteps, options_.width, options_.layout);
  }

 private:
  TimestepEmbedOptions options_;
  Linear fc1_ = nullptr;
  Linear fc2_ = nullptr;
};
using TimestepEmbed = UnitHolder<TimestepEmbedImpl>;

}  // namespace fovea::nn
