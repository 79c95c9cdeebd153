// T2T-ViT (Yuan et al., "Tokens-to-token ViT: training vision transformers from scratch on
// ImageNet", ICCV 2021), with the parameter names of its authors' code.
#pragma once

#include "fovea/models/model.h"
#include "fovea/models/t2t_vit_config.h"
#include "fovea/nn/block.h"
#include "fovea/nn/block_list.h"
#include "fovea/nn/tokens_to_token.h"

namespace fovea::models {

// The options of one of its blocks.
nn::BlockOptions block_options(const T2tVitConfig& config, double drop_path_rate);

// B batch, C channels, N tokens (the class token, then windows row by row), D embed_dim.
class T2tVit : public Model {
 public:
  explicit T2tVit(const T2tVitConfig& config, at::Device device = at::kCPU);

  std::string_view recipe_name() const override { return T2tVitConfig::kName; }

  at::Tensor forward(const ModelInput& input) const override;
  // images: [B, C, H, W] -> [B, N, D], after the final norm.
  at::Tensor forward_features(const at::Tensor& images) const;

  // The class token after the final norm.
  int64_t num_features() const override { return config_.embed_dim; }
  at::Tensor pooled_features(const ModelInput& input) const override;
  bool has_classifier() const override { return static_cast<bool>(head_); }
  at::Tensor classify(const at::Tensor& features) const override;

  void init_parameter(const std::string& name, const at::Tensor& value,
                      uint64_t seed) const override;
  InputSpec input_spec() const override;
  int64_t num_classes() const override { return config_.num_classes; }
  std::vector<std::string> no_weight_decay() const override { return {"cls_token"}; }
  // pos_embed of a grid of equal sides, resized bicubically as upstream does.
  at::Tensor adapt_parameter(const std::string& name, const at::Tensor& saved) const override;
  int64_t layer_id(const std::string& parameter_name) const override;
  int64_t num_layers() const override { return config_.depth + 2; }
  kernels::Recordable can_be_recorded() const override;
  AttentionView attention_view() const override {
    return {.blocks = "blocks", .depth = config_.depth, .num_prefix = 1, .uses_class_token = true};
  }
  std::vector<int64_t> token_grid(at::IntArrayRef /*sides*/) const override { return grid_size_; }

  const T2tVitConfig& config() const { return config_; }
  // Tokens along each side of an image of config().img_size.
  const std::vector<int64_t>& grid_size() const { return grid_size_; }

 private:
  at::Tensor embed(const at::Tensor& images) const;
  at::Tensor class_token_of(const at::Tensor& images) const;

  T2tVitConfig config_;
  std::vector<int64_t> grid_size_;
  at::Tensor cls_token_;  // [1, 1, D]
  at::Tensor pos_embed_;  // [1, N, D], fixed sinusoids
  nn::TokensToToken tokens_to_token_ = nullptr;
  nn::BlockList<nn::Block> blocks_;
  nn::Norm norm_ = nullptr;
  nn::Linear head_ = nullptr;
};

}  // namespace fovea::models
