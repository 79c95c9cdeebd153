// The vision transformer, with every option of timm's VisionTransformer and with its names.
#pragma once

#include "fovea/models/model.h"
#include "fovea/models/vit_config.h"
#include "fovea/nn/adaptive_embed.h"
#include "fovea/nn/attention_pool.h"
#include "fovea/nn/block.h"
#include "fovea/nn/block_list.h"
#include "fovea/nn/patch_embed.h"
#include "fovea/nn/variable_embed.h"

namespace fovea::models {

// The options of block `index` of the config, for models that have more of their kind.
nn::BlockOptions block_options(const VitConfig& config, double drop_path_rate, int64_t index);

// Which of these patches stand for something: [B, L] bool. All of a sample of nothing but padding.
at::Tensor real_patches(const PatchInput& patches);

// B batch, C channels, N tokens (prefix tokens, then patches row by row), D embed_dim.
class Vit : public Model {
 public:
  // Structure only: weights hold no values until init_weights or load_weights. On the meta device
  // nothing is allocated.
  explicit Vit(const VitConfig& config, at::Device device = at::kCPU);

  std::string_view recipe_name() const override { return VitConfig::kName; }

  at::Tensor forward(const ModelInput& input) const override;
  bool takes_patches() const override { return config_.is_adaptive(); }
  bool takes_packed() const override { return config_.is_packed(); }
  // images: [B, C, H, W] or [B, C, D, H, W] -> [B, N, D], after the final norm (fc_norm: without).
  at::Tensor forward_features(const ModelInput& images) const;

  // The pieces of forward_features, for models that have a ViT as their encoder.
  // images or adaptive patches -> [B, number of patches, D] with their position, without prefix
  // tokens.
  at::Tensor embed_patches(const ModelInput& input) const;
  // Which tokens of these patches, prefix included, stand for something: [B, N] bool; undefined
  // where all do. A sample of nothing but padding attends to all of it.
  at::Tensor token_mask(const PatchInput& patches) const;
  // patches: [B, n, D], any choice of them -> [B, prefix + n, D]: class and register tokens with
  // their position in front.
  at::Tensor add_prefix(const at::Tensor& patches) const;
  // add_prefix(embed_patches(input)), in fewer passes over memory.
  at::Tensor embed_tokens(const ModelInput& input) const;
  // tokens: [B, N, D] -> [B, N, D] after the final norm. tapped: the tokens after the blocks of the
  // indices `taps`, without a norm, in that order; taps ascend. mask: see token_mask. offsets: of
  // samples in a row, see nn::Attention.
  at::Tensor encode(const at::Tensor& tokens, at::IntArrayRef taps = {},
                    std::vector<at::Tensor>* tapped = nullptr, const at::Tensor& mask = {},
                    const at::Tensor& offsets = {}) const;

  // tokens: [B, N, D] -> [B, num_classes]; pre_logits: what the head would see, [B, D].
  // mask: tokens that pooling leaves out, see token_mask.
  at::Tensor forward_head(const at::Tensor& tokens, bool pre_logits = false,
                          const at::Tensor& mask = {}) const;

  // Pooled, normed and, where there is one, through the tanh layer; 0 features without pooling.
  int64_t num_features() const override;
  at::Tensor pooled_features(const ModelInput& input) const override;
  bool has_classifier() const override { return head_ && !config_.distilled && num_features() > 0; }
  at::Tensor classify(const at::Tensor& features) const override;
  std::vector<std::string> variables() const override { return config_.variables; }
  // For what stands around an encoder and has a value for each of in_chans channels. Without
  // variables, and with single_channel, x itself. channels: see ModelInput.
  // x: [B, C', ...], the channels of a batch -> [B, in_chans, ...], zeros for variables that it
  // does not hold.
  at::Tensor to_all_channels(const at::Tensor& x, const std::vector<std::string>& channels) const;
  // x: [B, N, S * in_chans], channels last -> [B, N, S * C'], those of the batch in its order.
  at::Tensor to_batch_channels(const at::Tensor& x, const std::vector<std::string>& channels) const;

  void init_parameter(const std::string& name, const at::Tensor& value,
                      uint64_t seed) const override;
  InputSpec input_spec() const override;
  int64_t num_classes() const override { return config_.num_classes; }
  std::vector<std::string> no_weight_decay() const override;
  // pos_embed of a grid of equal sides.
  at::Tensor adapt_parameter(const std::string& name, const at::Tensor& saved) const override;
  int64_t layer_id(const std::string& parameter_name) const override;
  int64_t num_layers() const override;
  kernels::Recordable can_be_recorded() const override;
  AttentionView attention_view() const override;
  std::vector<int64_t> token_grid(at::IntArrayRef sides) const override;

  const VitConfig& config() const { return config_; }
  // Tokens along each side of an image of config().img_size (packed: that of the position table);
  // adaptive: the one number of patches.
  const std::vector<int64_t>& grid_size() const { return grid_size_; }

 private:
  void register_patch_embed(at::Device device);
  void register_tokens(at::Device device);
  void register_head(at::Device device);
  void check_images(const at::Tensor& images) const;
  std::vector<int64_t> ids_of(const at::Tensor& x, const std::vector<std::string>& channels) const;
  struct EmbeddedImages {
    at::Tensor patches;   // [B, N, D]
    at::Tensor position;  // [1, N, D], of each image's; undefined: they have none
  };
  EmbeddedImages embed_images(const at::Tensor& images,
                              const std::vector<std::string>& channels) const;
  at::Tensor join_tokens(const at::Tensor& patches, const at::Tensor& position) const;
  at::Tensor embed_adaptive(const PatchInput& patches,
                            const std::vector<std::string>& channels) const;
  at::Tensor head_of(const ModelInput& input, bool pre_logits) const;
  int64_t num_read_by_head() const;
  at::Tensor encode_for_head(const at::Tensor& tokens, const at::Tensor& mask) const;
  nn::PatchEmbedOptions grid_options() const;
  std::vector<int64_t> grid_of(at::IntArrayRef img_size) const;
  int64_t num_embedded_prefix() const;
  at::Tensor position_of(at::IntArrayRef grid) const;
  at::Tensor prefix_rows(c10::ScalarType dtype) const;
  at::Tensor drop_positions(const at::Tensor& tokens) const;
  int64_t num_kept(int64_t num_patches) const;
  at::Tensor drop_patches(const at::Tensor& tokens) const;
  void check_packed(const PackedImages& images) const;
  at::Tensor embed_packed(const PackedImages& images) const;
  at::Tensor add_prefixes(const at::Tensor& patches, std::vector<int64_t>& lengths) const;
  at::Tensor drop_packed_patches(const at::Tensor& tokens, std::vector<int64_t>& lengths) const;
  at::Tensor encode_packed(const PackedImages& images, std::vector<int64_t>& lengths) const;
  at::Tensor head_of_packed(const PackedImages& images, bool pre_logits) const;
  at::Tensor pool(const at::Tensor& tokens, const at::Tensor& mask) const;
  at::Tensor scale_logits(const at::Tensor& logits) const;
  at::Tensor adapt_pos_embed(const at::Tensor& saved) const;

  VitConfig config_;
  std::vector<int64_t> grid_size_;
  at::Tensor cls_token_;                             // [1, 1, D]
  at::Tensor reg_token_;                             // [1, reg_tokens, D]
  at::Tensor dist_token_;                            // [1, 1, D]
  at::Tensor pos_embed_;                             // [1, N or number of patches, D]
  at::Tensor pos_embed_y_, pos_embed_x_;             // factorized: [1, rows, D], [1, columns, D]
  nn::PatchEmbed patch_embed_ = nullptr;             // of a grid
  nn::AdaptivePatchEmbed adaptive_embed_ = nullptr;  // or of adaptive patches
  nn::AdaptivePosEmbed adaptive_pos_ = nullptr;
  nn::VariableEmbed variable_embed_ = nullptr;  // or of channels as variables, either way
  nn::Norm norm_pre_ = nullptr;
  nn::BlockList<nn::TransformerBlock> blocks_;
  nn::Norm norm_ = nullptr;
  nn::AttentionPool attn_pool_ = nullptr;
  nn::Norm fc_norm_ = nullptr;
  nn::Linear pre_logits_ = nullptr;
  nn::Linear head_ = nullptr;
  nn::Linear head_dist_ = nullptr;
};

}  // namespace fovea::models
