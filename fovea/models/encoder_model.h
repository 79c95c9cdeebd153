// A model that has a ViT as its encoder: what MAE, UNETR and their like have in common.
#pragma once

#include <memory>

#include "fovea/models/encoder_config.h"
#include "fovea/models/vit.h"
#include "fovea/nn/init.h"

namespace fovea::models {

// Parameters of the encoder are `encoder.` and timm's name; the rest is the derived model's own.
class EncoderModel : public Model {
 public:
  EncoderModel(const EncoderConfig& config, at::Device device);

  InputSpec input_spec() const override { return encoder_->input_spec(); }
  // The encoder's class token, of everything it sees; without one, the mean of its patches.
  int64_t num_features() const override { return encoder_->config().embed_dim; }
  at::Tensor pooled_features(const ModelInput& input) const override;
  std::vector<std::string> variables() const override { return encoder_->variables(); }
  // The encoder's are those of a ViT by itself of the same seed.
  void init_parameter(const std::string& name, const at::Tensor& value,
                      uint64_t seed) const override;
  std::vector<std::string> no_weight_decay() const override;
  at::Tensor adapt_parameter(const std::string& name, const at::Tensor& saved) const override;
  bool is_backbone(const std::string& parameter_name) const override;
  // Everything behind the encoder is its last layer.
  int64_t layer_id(const std::string& parameter_name) const override;
  int64_t num_layers() const override { return encoder_->num_layers(); }
  kernels::Recordable can_be_recorded() const override { return encoder_->can_be_recorded(); }
  // That of the encoder.
  AttentionView attention_view() const override;
  std::vector<int64_t> token_grid(at::IntArrayRef sides) const override {
    return encoder_->token_grid(sides);
  }

  Vit& encoder() { return *encoder_; }
  const Vit& encoder() const { return *encoder_; }

 protected:
  // Step-0 values of a parameter outside of the encoder.
  virtual nn::ParameterInit own_init(const std::string& name, at::IntArrayRef shape) const = 0;
  // Names outside of the encoder that get no weight decay although they have two or more dims.
  virtual std::vector<std::string> own_no_weight_decay() const { return {}; }

 private:
  at::Tensor pool(const at::Tensor& tokens, const at::Tensor& mask) const;

  std::shared_ptr<Vit> encoder_;
};

}  // namespace fovea::models
