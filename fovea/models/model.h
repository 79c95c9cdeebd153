// What every model is to the trainer, the evaluators and the commands.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/nn/unit.h"

namespace fovea::models {

// What preprocessing a model's weights expect (timm's default_cfg); recipes may override it.
struct InputSpec {
  int64_t in_chans = 3;
  std::vector<int64_t> img_size;  // [H, W] or [D, H, W]
  std::vector<double> mean, std;  // per channel, of pixels in [0, 1]
  double crop_pct = 0.9;
  std::string interpolation = "bicubic";
  std::optional<int64_t> packed_patch_size = {};  // with takes_packed(): side of a patch
};

// Adaptive patches of a batch (fovea/data/patching): what a model takes in place of images where
// takes_patches().
struct PatchInput {
  at::Tensor tokens;   // [B, C, L, p^d], in the dtype of the activations
  at::Tensor sizes;    // [B, T, L] longest side of each patch's leaf, in pixels
  at::Tensor centers;  // [B, T, L, d] x, y(, z), in pixels
  at::Tensor padding;  // [B, T, L] bool: no leaf, nothing to attend to
  // For models that go back to the image; others leave them alone.
  at::Tensor images = {};  // [B, C, sides] that the patches were cut from
  // [B, T, L, 2, d] int64 on the CPU: first pixel and sides of each leaf, in the order of the
  // images' sides; padding: zeros.
  at::Tensor boxes = {};
  // In place of boxes, where a graph of operations is to say it all: [B, G, L] which share of the
  // pixels of each cell of the model's grid lies in each leaf.
  at::Tensor leaf_shares = {};
  // Whether a place of some sample holds no patch in any of its trees, where whoever made this
  // knows; without it a model looks at `padding`, and the host waits for a GPU.
  std::optional<bool> has_padding = {};
};

// Images of mixed sizes as one sequence of patches, image after image (Dehghani et al. 2023,
// NaViT): what a model takes beside images where takes_packed().
struct PackedImages {
  // [1, T, C * P * P], in the dtype of the activations; each image's row by row over its grid, the
  // values of a patch in the order (C, P, P).
  at::Tensor patches;
  // [B] rows and columns of patches; T is the sum of their products.
  std::vector<std::array<int64_t, 2>> grids;

  // Patches of each image.
  std::vector<int64_t> lengths() const;
};

// [B, C, H, W] of one size, as a pack. Throws Error where a side is not a multiple of the patch's.
PackedImages pack_images(const at::Tensor& images, int64_t patch_size);

// Parameters are float32, with timm's names. Model code knows no rank, no process group and no
// precision: it computes in the dtype of its input.
class Model : public nn::UnitImpl {
 public:
  // What model.name of a recipe says: "vit", "mae" ...
  virtual std::string_view recipe_name() const = 0;

  // images: [B, C, H, W] or [B, C, D, H, W] -> logits [B, num_classes] (features where the head is
  // the identity).
  virtual at::Tensor forward(const at::Tensor& images) = 0;

  // Whether forward_patches is its forward, and of what: nothing, or the patches it was made for.
  virtual bool takes_patches() const { return false; }
  // -> as forward. Throws ConfigError where the model takes images.
  virtual at::Tensor forward_patches(const PatchInput& patches);

  // Whether batches come to it packed: it then takes images of any size, all of one size (forward)
  // or mixed.
  virtual bool takes_packed() const { return false; }
  // -> as forward, one row for each image. Throws ConfigError where the model takes none.
  virtual at::Tensor forward_packed(const PackedImages& images);

  // Width F of the features of a sample, what a classifier would stand on; 0: it has none.
  virtual int64_t num_features() const { return 0; }
  // images: as forward -> [B, F], as the head sees them in evaluation mode. Throws ConfigError
  // where there are none, or the model takes the other kind of input.
  virtual at::Tensor pooled_features(const at::Tensor& images);
  virtual at::Tensor pooled_patch_features(const PatchInput& patches);
  virtual at::Tensor pooled_packed_features(const PackedImages& images);
  // Whether forward, in evaluation mode, is classify of these features, and all parameters that
  // classify uses are the head's (not is_backbone).
  virtual bool has_classifier() const { return false; }
  // features: [B, F] -> logits [B, num_classes], with the head's dropout in training.
  virtual at::Tensor classify(const at::Tensor& features);

  // Step-0 values of the parameter `name`, into `value` of its whole shape: a function of (seed,
  // name, element index) alone. The model itself need not hold any.
  virtual void init_parameter(const std::string& name, const at::Tensor& value,
                              uint64_t seed) const = 0;
  // Those of all its parameters.
  void init_weights(uint64_t seed);

  virtual InputSpec input_spec() const = 0;

  // Names of the channels that it has tokenisers for, of which a batch may hold any (see
  // docs/variables.md); empty: channels have no names.
  virtual std::vector<std::string> variables() const { return {}; }
  // Which variables the channels of the batches to come are, in their order; empty: all in that of
  // variables(), of a model of single channels the first. Throws ConfigError for names that are not
  // of variables(). A model without variables does not look at names. See ChannelScope.
  virtual void set_channels(const std::vector<std::string>& /*names*/) {}
  virtual std::vector<std::string> channels() const { return {}; }

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
