// What every model is to the trainer, the evaluators and the commands.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/kernels/recordable.h"
#include "fovea/models/model_input.h"
#include "fovea/nn/unit.h"

namespace fovea::models {

class DiffusionVit;
class Mae;
class Segmenter;

// What preprocessing a model's weights expect (timm's default_cfg); recipes may override it.
struct InputSpec {
  int64_t in_chans = 3;
  std::vector<int64_t> img_size;  // [H, W] or [D, H, W]
  std::vector<double> mean, std;  // per channel, of pixels in [0, 1]
  double crop_pct = 0.9;
  std::string crop_mode = "center";  // see VitInputConfig
  std::string interpolation = "bicubic";
  std::optional<int64_t> packed_patch_size = {};  // with takes_packed(): side of a patch
};

// Which blocks of a model show what it looks at, and what their tokens are.
struct AttentionView {
  std::string blocks = {};  // path of the blocks: "encoder.blocks"; empty: none do
  int64_t depth = 0;
  int64_t num_prefix = 0;         // tokens in front of those of patches
  bool uses_class_token = false;  // the prediction is made from the first of them
  bool is_of_features = false;    // a pass over them is that of pooled features
};

// Parameters are float32, with timm's names. Model code knows no rank, no process group and no
// precision: it computes in the dtype of its input.
class Model : public nn::UnitImpl {
 public:
  // What model.name of a recipe says: "vit", "mae" ...
  virtual std::string_view recipe_name() const = 0;

  // images: [B, C, H, W] or [B, C, D, H, W], or what stands in their place -> logits
  // [B, num_classes] (features where the head is the identity), one row for each sample. Throws
  // ConfigError for another kind of input than the model takes. Changes nothing: several threads
  // may call it at once.
  virtual at::Tensor forward(const ModelInput& input) const = 0;

  // Whether the forward and backward pass of a training step take all that differs between batches
  // of equal shape from tensors: then they may be part of a recorded step.
  virtual kernels::Recordable can_be_recorded() const { return {}; }

  // Itself as what a task or a command asks for; null where it is something else. Its class says so
  // by what it derives from: there is nothing to override, and so nothing to forget.
  const Segmenter* as_segmenter() const;
  const Mae* as_autoencoder() const;
  const DiffusionVit* as_denoiser() const;

  virtual AttentionView attention_view() const { return {}; }
  // Tokens of patches along each side of images of these sides. Of models with an AttentionView
  // that take no adaptive patches.
  virtual std::vector<int64_t> token_grid(at::IntArrayRef /*sides*/) const { return {}; }

  // Whether it takes adaptive patches in place of images: nothing, or the patches it was made for.
  virtual bool takes_patches() const { return false; }
  // Whether it goes back to the images that they were cut from: PatchInput::images.
  virtual bool wants_images_of_patches() const { return false; }
  // Whether batches come to it packed: it then takes images of any size, all of one size or mixed.
  virtual bool takes_packed() const { return false; }

  // Width F of the features of a sample, what a classifier would stand on; 0: it has none.
  virtual int64_t num_features() const { return 0; }
  // input: as forward -> [B, F], as the head sees them in evaluation mode. Throws ConfigError where
  // there are none.
  virtual at::Tensor pooled_features(const ModelInput& input) const;
  // Whether forward, in evaluation mode, is classify of these features, and all parameters that
  // classify uses are the head's (not is_backbone).
  virtual bool has_classifier() const { return false; }
  // features: [B, F] -> logits [B, num_classes], with the head's dropout in training.
  virtual at::Tensor classify(const at::Tensor& features) const;

  // Step-0 values of the parameter `name`, into `value` of its whole shape: a function of (seed,
  // name, element index) alone. The model itself need not hold any.
  virtual void init_parameter(const std::string& name, const at::Tensor& value,
                              uint64_t seed) const = 0;
  // Those of all its parameters.
  void init_weights(uint64_t seed);

  virtual InputSpec input_spec() const = 0;

  // Names of the channels that it has tokenisers for, of which a batch may hold any (see
  // docs/variables.md, ModelInput::channels); empty: channels have no names.
  virtual std::vector<std::string> variables() const { return {}; }

  // Classes that it tells apart, or was told of; 0: it knows none.
  virtual int64_t num_classes() const { return 0; }

  // Whether a parameter belongs to what pre-training makes and a new task keeps: `trainer.freeze:
  // [backbone]`.
  virtual bool is_backbone(const std::string& parameter_name) const {
    return !parameter_name.starts_with("head.");
  }

  // Parameters that weight decay leaves alone although they have two or more dims (timm's
  // no_weight_decay()).
  virtual std::vector<std::string> no_weight_decay() const = 0;

  // A saved parameter of another shape made to fit, where the model knows how (the position
  // embedding of another grid, the patch projection of another number of channels); undefined where
  // it does not.
  virtual at::Tensor adapt_parameter(const std::string& /*name*/,
                                     const at::Tensor& /*saved*/) const {
    return {};
  }

  // Layer number of a parameter for layer-wise learning-rate decay: 0 the stem, 1..depth the
  // blocks, depth + 1 the rest; and the number of layers.
  virtual int64_t layer_id(const std::string& parameter_name) const = 0;
  virtual int64_t num_layers() const = 0;
};

using ModelPtr = std::shared_ptr<Model>;

}  // namespace fovea::models
