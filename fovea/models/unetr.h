// UNETR: a vision transformer as the encoder of a U-shaped convolutional network, for images and
// volumes (Hatamizadeh et al. 2021, arXiv:2103.10504).
#pragma once

#include <array>
#include <functional>

#include "fovea/models/encoder_model.h"
#include "fovea/models/segmenter.h"
#include "fovea/models/unetr_config.h"
#include "fovea/nn/unet_blocks.h"

namespace fovea::models {

// B batch, C channels, K classes, D embed_dim, F feature_size, G grid sides: of the image over the
// patch, or with adaptive_map: sequence those of the square or cube of patches.
//
// Parameters of the decoder have MONAI's names (encoder1 to encoder4, decoder5 to decoder2, out),
// those of the vision transformer stand under encoder.; a linear decoder is called head.
class Unetr : public EncoderModel, public Segmenter {
 public:
  explicit Unetr(const UnetrConfig& config, at::Device device = at::kCPU);

  std::string_view recipe_name() const override { return UnetrConfig::kName; }

  // images: [B, C, H, W] or [B, C, D, H, W] -> logits [B, K, sides]. Throws Error for other sides
  // than encoder.img_size; with encoder.dynamic_img_size, for sides that are no multiple of the
  // patch size.
  // Of adaptive patches: those of patches.images. Throws ConfigError for images of other sides than
  // encoder.img_size, and with adaptive_map: image for several trees a sample.
  at::Tensor forward(const ModelInput& input) const override;
  bool takes_patches() const override { return encoder().config().is_adaptive(); }
  bool wants_images_of_patches() const override { return takes_patches(); }

  int64_t num_classes() const override { return config_.num_classes; }

  std::vector<int64_t> window_size() const override { return encoder().config().img_sides(); }
  kernels::Recordable can_be_recorded() const override;

  const UnetrConfig& config() const { return config_; }

 protected:
  nn::ParameterInit own_init(const std::string& name, at::IntArrayRef shape) const override;

 private:
  void register_skips(at::Device device);
  void register_decoder(at::Device device);
  // Patch tokens to features on their grid: [B, n, D] -> [B, D, G].
  using ToMap = std::function<at::Tensor(const at::Tensor& tokens)>;
  ToMap map_of(at::IntArrayRef sides) const;
  ToMap map_of(const PatchInput& patches) const;
  // Images, whose channels are what `channels` of a ModelInput says.
  struct NamedImages {
    at::Tensor values;  // [B, C, sides]
    const std::vector<std::string>& channels;
  };
  at::Tensor segment(const NamedImages& images, const at::Tensor& patches, const at::Tensor& mask,
                     const ToMap& to_map) const;
  at::Tensor resized(const at::Tensor& x, at::IntArrayRef sides) const;
  // x: [B, D, G], of the last tokens; tapped: of those that the skip connections take.
  at::Tensor decode(const NamedImages& images, const at::Tensor& x,
                    const std::vector<at::Tensor>& tapped) const;
  at::Tensor upsample(const at::Tensor& x, at::IntArrayRef sides) const;

  UnetrConfig config_;
  std::vector<int64_t> patch_;
  nn::UnetrBasicBlock encoder1_ = nullptr;                                 // of the image
  std::array<nn::UnetrPrUpBlock, 3> skips_ = {nullptr, nullptr, nullptr};  // encoder4, 3, 2
  // decoder5 to decoder2, coarse to fine.
  std::array<nn::UnetrUpBlock, 4> decoder_ = {nullptr, nullptr, nullptr, nullptr};
  std::array<nn::Conv, 4> upsampling_ = {nullptr, nullptr, nullptr, nullptr};  // without skips
  nn::UnetOutBlock out_ = nullptr;
  nn::Linear head_ = nullptr;
};

}  // namespace fovea::models
