// The diffusion ViT: what was added to a noisy image, seen with its time step and class.
#pragma once

#include "fovea/models/diffusion_vit_config.h"
#include "fovea/models/encoder_model.h"
#include "fovea/nn/adaln.h"
#include "fovea/nn/timestep_embed.h"

namespace fovea::models {

// The ViT of which the decoder's blocks are.
VitConfig decoder_vit(const DiffusionVitConfig& config);

// Two ways of conditioning:
//   add         the whole ViT as encoder; the embedding of time (and class) is added to each token
//               before the first block (UCF-VIT's DiffusionVIT).
//   adaln_zero  the ViT's stem as encoder; blocks, decoder and last norm are modulated by that
//               embedding (DiT, Peebles and Xie 2023). A fresh model predicts zeros.
// Prefix tokens, where the encoder has any, take part in the blocks and are dropped before the
// decoder. B batch, C channels, N patches, D embed_dim, P side of a patch.
class DiffusionVit : public EncoderModel {
 public:
  // Throws ConfigError with every issue of the config.
  explicit DiffusionVit(const DiffusionVitConfig& config, at::Device device = at::kCPU);

  std::string_view recipe_name() const override { return DiffusionVitConfig::kName; }

  // noisy: [B, C, H, W] or [B, C, D, H, W]; timesteps: [B] int64 from 0; classes: [B] int64 in
  // [0, num_classes], where num_classes stands for "no class"; undefined: no class for any.
  // -> the shape and dtype of noisy. What it means (noise, image, velocity) is the task's choice.
  // Of adaptive patches (encoder.patching: adaptive), of which padding takes part in no attention:
  // -> [B, C, L, p^d], as patches.tokens, which are noisy. What it gives for padding means nothing.
  at::Tensor denoise(const ModelInput& noisy, const at::Tensor& timesteps,
                     const at::Tensor& classes = {}) const;
  // The same with the features of the time steps, time_features: [B, F] in the dtype of noisy.
  at::Tensor denoise_with(const ModelInput& noisy, const at::Tensor& time_features,
                          const at::Tensor& classes) const;
  // timesteps: [n] int64 -> [n, F] float64.
  at::Tensor time_features(const at::Tensor& timesteps) const {
    return time_embed_->features(timesteps);
  }
  bool takes_patches() const override { return encoder().takes_patches(); }
  // denoise at time step 0, without a class.
  at::Tensor forward(const ModelInput& input) const override;

  // Its tokens mean nothing without a time step.
  int64_t num_features() const override { return 0; }
  at::Tensor pooled_features(const ModelInput& input) const override {
    return Model::pooled_features(input);
  }

  void init_parameter(const std::string& name, const at::Tensor& value,
                      uint64_t seed) const override;
  int64_t num_classes() const override { return config_.num_classes; }
  bool is_backbone(const std::string& parameter_name) const override;
  int64_t layer_id(const std::string& parameter_name) const override;
  int64_t num_layers() const override;
  AttentionView attention_view() const override;

  const DiffusionVitConfig& config() const { return config_; }

 protected:
  nn::ParameterInit own_init(const std::string& name, at::IntArrayRef shape) const override;
  std::vector<std::string> own_no_weight_decay() const override;

 private:
  void register_condition(at::Device device);
  void register_decoder(at::Device device);
  at::Tensor condition(const at::Tensor& time_features, const at::Tensor& classes) const;
  at::Tensor position_of(const ModelInput& input) const;
  at::Tensor encode_with(const at::Tensor& patches, const at::Tensor& condition,
                         const at::Tensor& mask) const;
  at::Tensor decode(const at::Tensor& tokens, const at::Tensor& condition,
                    const at::Tensor& position, const at::Tensor& mask) const;

  DiffusionVitConfig config_;
  nn::TimestepEmbed time_embed_ = nullptr;
  at::Tensor class_embed_;                      // [num_classes + 1, D]; the last row: no class
  nn::BlockList<nn::ConditionedBlock> blocks_;  // adaln_zero
  nn::Linear decoder_embed_ = nullptr;
  at::Tensor decoder_pos_embed_;                                    // [1, N, decoder D], or
  nn::AdaptivePosEmbed decoder_adaptive_pos_ = nullptr;             // of adaptive patches
  nn::BlockList<nn::TransformerBlock> decoder_blocks_;              // add
  nn::BlockList<nn::ConditionedBlock> decoder_conditioned_blocks_;  // adaln_zero
  nn::Norm decoder_norm_ = nullptr;
  nn::Modulation decoder_modulation_ = nullptr;
  nn::Linear decoder_pred_ = nullptr;
};

}  // namespace fovea::models
