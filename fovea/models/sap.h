// SAP, symmetric adaptive patching: a vision transformer on adaptive patches that gives a class to
// each pixel of each patch, whatever size of the image the patch stands for (Zhang et al.,
// "Adaptive Patching for High-resolution Image Segmentation with Transformers", SC 2024; UCF-VIT's
// SAP).
#pragma once

#include "fovea/models/encoder_model.h"
#include "fovea/models/sap_config.h"
#include "fovea/models/segmenter.h"

namespace fovea::models {

// Two linear maps of each token without anything between them, which are one: [K, E] x [E, S D].
class SapHeadImpl : public nn::UnitImpl {
 public:
  SapHeadImpl(int64_t embed_dim, int64_t decoder_dim, int64_t num_classes, at::Device device);

  int64_t embed_dim() const { return embed_dim_; }

  // x: [B, L, D], up: [E, S, D] -> [B, K, L, S].
  at::Tensor forward(const at::Tensor& x, const at::Tensor& up) const;

 private:
  int64_t embed_dim_;
  at::Tensor weight_;  // [K, E]
  at::Tensor bias_;    // [K]
};
using SapHead = nn::UnitHolder<SapHeadImpl>;

// B batch, C channels, L patches, S values of a patch (p^d), K classes, D embed_dim, E decoder_dim.
//
// UCF-VIT lays the patches on a square and applies a transposed convolution with kernel and stride
// p and a convolution of 1 x 1. Both see one patch at a time, so here they are two linear maps and
// any fixed_length will do. There is no activation between them: the product is the same.
class Sap : public EncoderModel, public Segmenter {
 public:
  explicit Sap(const SapConfig& config, at::Device device = at::kCPU);

  std::string_view recipe_name() const override { return SapConfig::kName; }

  // Adaptive patches -> logits [B, K, L, S], in the pixels of the patches. Throws ConfigError for
  // images.
  at::Tensor forward(const ModelInput& input) const override;
  bool takes_patches() const override { return true; }

  int64_t num_classes() const override { return config_.num_classes; }
  std::vector<int64_t> window_size() const override { return encoder().config().img_sides(); }
  bool gives_patches() const override { return true; }
  const SapConfig& config() const { return config_; }

 protected:
  nn::ParameterInit own_init(const std::string& name, at::IntArrayRef shape) const override;

 private:
  SapConfig config_;
  at::Tensor up_;  // up.weight [E, S, D], no bias
  SapHead head_ = nullptr;
};

}  // namespace fovea::models
