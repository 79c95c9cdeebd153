// The masked autoencoder (He et al. 2022, "Masked Autoencoders Are Scalable Vision Learners"), of
// images and of volumes.
#pragma once

#include "fovea/models/encoder_model.h"
#include "fovea/models/mae_config.h"

namespace fovea::models {

// The patches that the encoder sees.
struct SeenPatches {
  at::Tensor ids;  // [B, n] int64, each once
  // Of sequences in which some are padding: [B, n] bool, false for what only fills the row up;
  // undefined: all are seen.
  at::Tensor seen = {};
};

// The encoder sees a random share of the patches only; the decoder gets their tokens, a learned
// mask token in every other place, and predicts the pixels of all patches.
//
// Parameters outside of the encoder have the published names: mask_token, decoder_embed,
// decoder_pos_embed, decoder_blocks.N, decoder_norm, decoder_pred; a linear decoder has mask_token
// and decoder_pred alone.
//
// B batch, C channels, N patches row by row, n kept ones, D embed_dim, E decoder_embed_dim, P side
// of a patch.
class Mae : public EncoderModel {
 public:
  // Throws ConfigError with every issue of the config.
  explicit Mae(const MaeConfig& config, at::Device device = at::kCPU);

  std::string_view recipe_name() const override { return MaeConfig::kName; }

  // images: [B, C, H, W] or [B, C, D, H, W] -> the same shape: the prediction of every patch, seen
  // or not, from the patches that keep_patches() leaves. Under targets that are normalised patch by
  // patch the pixels are in those units.
  // Of adaptive patches -> [B, L, p^d * C], as predict, in the order (p^d, C).
  at::Tensor forward(const ModelInput& input) const override;

  // seen: what the encoder sees -> [B, N, P * P * C]: the pixels of each patch in the order of
  // nn::patchify. The order of seen.ids does not matter. Padding of adaptive patches
  // (encoder.patching: adaptive) is masked as what is not seen, takes part in no attention, and its
  // predictions mean nothing.
  at::Tensor predict(const ModelInput& input, const SeenPatches& seen) const;
  bool takes_patches() const override { return encoder().takes_patches(); }

  // The patches that are seen in a training step, drawn from (seed, step, "mask", row of the global
  // batch); see keep_patches below.
  at::Tensor keep_patches(int64_t num_patches, at::Device device = at::kCPU) const;

  void init_parameter(const std::string& name, const at::Tensor& value,
                      uint64_t seed) const override;
  // Position embeddings of another grid of equal sides, the encoder's and the decoder's.
  at::Tensor adapt_parameter(const std::string& name, const at::Tensor& saved) const override;

  kernels::Recordable can_be_recorded() const override;

  const MaeConfig& config() const { return config_; }
  // Patches of images of this shape.
  int64_t num_patches(const at::Tensor& images) const;

 protected:
  nn::ParameterInit own_init(const std::string& name, at::IntArrayRef shape) const override;
  std::vector<std::string> own_no_weight_decay() const override;

 private:
  void register_transformer(at::Device device);
  std::vector<int64_t> grid_of(const at::Tensor& images) const;
  at::Tensor grid_position(at::IntArrayRef grid) const;
  at::Tensor patch_position(const PatchInput& patches) const;
  at::Tensor add_mask_tokens(const at::Tensor& kept, const SeenPatches& seen,
                             int64_t num_patches) const;
  at::Tensor decode(const at::Tensor& latent, const SeenPatches& seen, int64_t num_patches,
                    const at::Tensor& position, const at::Tensor& mask) const;

  MaeConfig config_;
  at::Tensor mask_token_;         // [1, 1, E], or D before a linear decoder
  at::Tensor decoder_pos_embed_;  // [1, prefix + N, E], or
  nn::AdaptivePosEmbed decoder_adaptive_pos_ = nullptr;
  nn::Linear decoder_embed_ = nullptr;
  nn::BlockList<nn::TransformerBlock> decoder_blocks_;
  nn::Norm decoder_norm_ = nullptr;
  nn::Linear decoder_pred_ = nullptr;
};

// The patches that are seen, ascending: [B, n] int64 on `device`, each row a function of the key
// and of the key's own row alone (Note [Drop masks] in kernels/elementwise/drop.h).
at::Tensor keep_patches(const MaeConfig& config, const kernels::DropKey& key, int64_t num_patches,
                        at::Device device = at::kCPU);

// The same of adaptive patches, where is_real: [B, L] bool is true: of r real patches the encoder
// sees config.num_kept(r), at least one. Without padding it is the choice that keep_patches makes.
SeenPatches see_patches(const MaeConfig& config, const kernels::DropKey& key,
                        const at::Tensor& is_real);

// 1 where a patch is masked, 0 where the encoder saw it or where it is padding: [B, L] float32 on
// the device of is_real.
at::Tensor patch_mask(const SeenPatches& seen, const at::Tensor& is_real);

// 1 where a patch is masked, 0 where the encoder saw it: [B, n] -> [B, num_patches] float32 on the
// device of ids_keep.
at::Tensor patch_mask(const at::Tensor& ids_keep, int64_t num_patches);

}  // namespace fovea::models
