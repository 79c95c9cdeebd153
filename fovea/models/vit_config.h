// Every option of the ViT: timm's names, one field list (see config/fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/models/size_limits.h"

namespace fovea::models {

// The preprocessing that the weights expect; recipes may override it.
struct VitInputConfig {
  std::vector<double> mean = {0.5, 0.5, 0.5};
  std::vector<double> std = {0.5, 0.5, 0.5};
  double crop_pct = 0.9;
  std::string crop_mode = "center";
  std::string interpolation = "bicubic";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("mean", self.mean, "mean per channel, of pixels in [0, 1]", {.one_is_list = true});
    v.field("std", self.std, "standard deviation per channel",
            {.min = 0, .exclusive_min = true, .one_is_list = true});
    v.field("crop_pct", self.crop_pct, "side of the centre crop over the side before it",
            {.min = 0, .max = 1, .exclusive_min = true});
    v.field("crop_mode", self.crop_mode,
            "center: the shorter edge is resized, and the centre cropped; squash: both edges are, "
            "whatever the image's shape",
            {.choices = {"center", "squash"}});
    v.field("interpolation", self.interpolation, "how images are resized",
            {.choices = {"bicubic", "bilinear", "nearest"}});
  }
};

struct VitConfig {
  static constexpr std::string_view kName = "vit";

  std::string preset;  // the row of the table that the fields started from
  std::vector<int64_t> img_size = {224};
  std::vector<int64_t> patch_size = {16};
  std::string patching = "grid";
  int64_t fixed_length = 196;
  bool pos_in_pixels = false;
  bool patch_norm = false;
  int64_t in_chans = 3;
  std::vector<std::string> variables;
  bool single_channel = false;
  bool share_patch_embed = false;
  int64_t num_classes = 1000;
  std::string global_pool = "token";
  int64_t embed_dim = 768;
  int64_t depth = 12;
  int64_t num_heads = 12;
  double mlp_ratio = 4.0;
  bool qkv_bias = true;
  bool proj_bias = true;
  bool qk_norm = false;
  bool scale_attn_norm = false;
  bool scale_mlp_norm = false;
  std::optional<double> init_values;
  bool class_token = true;
  bool distilled = false;
  std::string pos_embed = "learn";
  std::string pos_embed_interp = "bicubic";
  bool no_embed_class = false;
  int64_t reg_tokens = 0;
  bool embed_norm = false;
  bool pre_norm = false;
  bool final_norm = true;
  std::optional<bool> fc_norm;
  bool pool_include_prefix = false;
  bool dynamic_img_size = false;
  bool dynamic_img_pad = false;
  bool crop_to_patches = false;
  double drop_rate = 0.0;
  double pos_drop_rate = 0.0;
  double patch_drop_rate = 0.0;
  double proj_drop_rate = 0.0;
  double attn_drop_rate = 0.0;
  double drop_path_rate = 0.0;
  bool drop_path_skip = false;
  std::string weight_init = "timm";
  bool fix_init = false;
  std::string act_layer = "gelu";
  std::string norm_layer = "layer_norm";
  double norm_eps = 1e-6;
  std::string mlp_layer = "mlp";
  std::string block_layer = "pre_norm";
  int64_t num_parallel = 2;
  std::string attn_layer = "attn";
  int64_t representation_size = 0;
  double logits_scale = 1.0;
  bool pretrained = false;
  VitInputConfig input;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    visit_encoder(v, self);
    visit_head(v, self);
  }
  // The keys from the image to the tokens after the last norm, which every model with a ViT as its
  // encoder has (encoder_config.h), and those of what makes logits of them.
  template <class Visitor, class Self>
  static void visit_encoder(Visitor& v, Self& self);
  template <class Visitor, class Self>
  static void visit_head(Visitor& v, Self& self);

  // Checks across fields.
  void validate(ConfigIssues& issues) const;

  // Sets every field to those of a preset; false: no such preset.
  bool apply_preset(const std::string& name);
  static std::vector<std::string> preset_names();

  // img_size and patch_size with one entry for each side: [H, W] or [D, H, W].
  std::vector<int64_t> img_sides() const;
  std::vector<int64_t> patch_sides() const;
  bool is_adaptive() const { return patching == "adaptive"; }
  bool is_packed() const { return patching == "packed"; }
  bool has_variables() const { return !variables.empty(); }
  // A place for each patch of the grid.
  bool has_pos_table() const { return pos_embed == "learn" || pos_embed.starts_with("sincos"); }
  // One for each row, and one for each column.
  bool has_factorized_pos() const { return pos_embed == "factorized"; }
  int64_t num_prefix_tokens() const { return class_token + distilled + reg_tokens; }
};

template <class Visitor, class Self>
void VitConfig::visit_encoder(Visitor& v, Self& self) {
  const FieldOptions width = {.min = 1, .max = kMaxWidth};
  const FieldOptions rate = {.min = 0, .max = 1, .exclusive_max = true};
  v.field("preset", self.preset, "named sizes and options (timm's names); other keys change them");
  v.field("img_size", self.img_size,
          "sides of the images: one number for a square, [H, W], or [D, H, W] for volumes",
          {.min = 1, .max = kMaxSide, .unit = "pixels", .one_is_list = true});
  v.field("patch_size", self.patch_size, "sides of a patch, as img_size",
          {.min = 1, .max = kMaxSide, .unit = "pixels", .one_is_list = true});
  v.field("patching", self.patching,
          "patches on a grid; of images of mixed sizes, each on a grid of its own, the tokens of a "
          "batch packed one behind another (NaViT; see the transform resize_to_patches); or as "
          "data.adaptive_patching cuts them: fixed_length of patch_size, small where the detail is",
          {.choices = {"grid", "packed", "adaptive"}});
  v.field("fixed_length", self.fixed_length, "adaptive: patches of a sample",
          {.min = 1, .max = kMaxSequence, .unit = "patches"});
  v.field("pos_in_pixels", self.pos_in_pixels,
          "pos_embed size_and_center: pixels as they are, as UCF-VIT; false: shares of the image");
  v.field(
      "patch_norm", self.patch_norm,
      "adaptive: a norm before and one after the patch embedding, as UCF-VIT; how bright a patch "
      "is as a whole is lost with it");
  v.field("in_chans", self.in_chans, "channels of the images", width);
  v.field("variables", self.variables,
          "names of channels, each with a patch embedding of its own: a batch may hold any of "
          "them, and their tokens are aggregated by attention (UCF-VIT's use_varemb); in_chans is "
          "their number");
  v.field("single_channel", self.single_channel,
          "variables: a batch holds one of them, nothing is aggregated, and in_chans is 1");
  v.field("share_patch_embed", self.share_patch_embed,
          "variables: one patch embedding for all, as UCF-VIT has it on a grid");
  v.field("embed_dim", self.embed_dim, "token width D", width);
  v.field("depth", self.depth, "number of blocks", {.min = 1, .max = kMaxDepth});
  v.field("num_heads", self.num_heads, "attention heads H; must divide embed_dim", width);
  v.field("mlp_ratio", self.mlp_ratio, "hidden width of the MLP over embed_dim",
          {.min = 0, .max = kMaxMlpRatio, .exclusive_min = true});
  v.field("qkv_bias", self.qkv_bias, "bias of queries, keys and values");
  v.field("proj_bias", self.proj_bias, "bias of the attention projection and the MLP");
  v.field("qk_norm", self.qk_norm, "norm of queries and keys");
  v.field("scale_attn_norm", self.scale_attn_norm, "norm before the attention projection");
  v.field("scale_mlp_norm", self.scale_mlp_norm, "norm before the second MLP layer");
  v.field("init_values", self.init_values,
          "start value of LayerScale, of block_layer res_post_norm of the norms' weights; none: no "
          "LayerScale, and 1",
          {.min = 0, .exclusive_min = true});
  v.field("class_token", self.class_token, "learned class token in front");
  v.field(
      "pos_embed", self.pos_embed,
      "position embedding: learned, fixed sin-cos, learned from a sin-cos start, the sum of a "
      "learned one of the row and one of the column (factorized), of adaptive patches a learned "
      "function of size and centre, or none",
      {.choices = {"learn", "sincos", "sincos_learn", "factorized", "size_and_center", "none"}});
  v.field("pos_embed_interp", self.pos_embed_interp,
          "resizing of the position embedding: bicubic with antialias, bilinear, zoom "
          "(corner-aligned linear) or DINOv2's; volumes: trilinear",
          {.choices = {"bicubic", "bilinear", "zoom", "dinov2"}});
  v.field("no_embed_class", self.no_embed_class, "no position embedding for prefix tokens");
  v.field("reg_tokens", self.reg_tokens, "register tokens", {.min = 0, .max = kMaxSequence});
  v.field("embed_norm", self.embed_norm, "norm behind the patch embedding, before the position");
  v.field("pre_norm", self.pre_norm,
          "norm before the blocks; the patch embedding has no bias then");
  v.field("final_norm", self.final_norm, "norm after the blocks");
  v.field("dynamic_img_size", self.dynamic_img_size,
          "accept any image size and resize the position embedding in each forward");
  v.field("dynamic_img_pad", self.dynamic_img_pad, "pad images with zeros to whole patches");
  v.field("crop_to_patches", self.crop_to_patches, "drop pixels beyond the last whole patch");
  v.field("pos_drop_rate", self.pos_drop_rate, "dropout after the position embedding", rate);
  v.field("patch_drop_rate", self.patch_drop_rate, "share of patch tokens left out in training",
          rate);
  v.field("proj_drop_rate", self.proj_drop_rate, "dropout after projections", rate);
  v.field("attn_drop_rate", self.attn_drop_rate, "dropout of attention probabilities", rate);
  v.field("drop_path_rate", self.drop_path_rate,
          "stochastic depth of the last block; earlier ones scale linearly", rate);
  v.field("drop_path_skip", self.drop_path_skip,
          "leave out the work for what drop_path_rate drops: the same draws and, but for rounding, "
          "the same results");
  v.field("weight_init", self.weight_init, "scheme of the weights at step 0",
          {.choices = {"timm", "jax", "jax_nlhb", "moco"}});
  v.field("fix_init", self.fix_init, "scale projections at step 0 by depth");
  v.field("act_layer", self.act_layer, "activation of the MLP",
          {.choices = {"gelu", "gelu_tanh", "quick_gelu", "silu", "relu"}});
  v.field("norm_layer", self.norm_layer, "kind of every norm",
          {.choices = {"layer_norm", "rms_norm"}});
  v.field("norm_eps", self.norm_eps, "epsilon of every norm", {.min = 0, .exclusive_min = true});
  v.field("mlp_layer", self.mlp_layer, "MLP, or SwiGLU with packed or split first layer",
          {.choices = {"mlp", "swiglu_packed", "swiglu"}});
  v.field("block_layer", self.block_layer,
          "norms in front of attention and MLP; behind them (timm's ResPostBlock); num_parallel "
          "attentions side by side, then MLPs (ParallelThingsBlock); or attention and MLP next to "
          "each other behind one norm (ParallelScalingBlock)",
          {.choices = {"pre_norm", "res_post_norm", "parallel_things", "parallel_scaling"}});
  v.field("num_parallel", self.num_parallel,
          "parallel_things: attentions, and MLPs, of a block side by side",
          {.min = 1, .max = kMaxParallel});
  v.field("attn_layer", self.attn_layer,
          "attention by one softmax a head, or by the difference of two (differential attention)",
          {.choices = {"attn", "diff"}});
  v.field("input", self.input, "preprocessing that the weights expect");
}

template <class Visitor, class Self>
void VitConfig::visit_head(Visitor& v, Self& self) {
  v.field("num_classes", self.num_classes, "outputs of the head; 0: the pooled features",
          {.min = 0, .max = kMaxClasses});
  v.field("global_pool", self.global_pool,
          "how tokens become one vector: the class token, average, average and maximum, maximum, "
          "attention (map), or '' for none",
          {.choices = {"", "avg", "avgmax", "max", "token", "map"}});
  v.field("distilled", self.distilled, "distillation token and its head, averaged with the first");
  v.field("fc_norm", self.fc_norm,
          "final norm after pooling instead of before; none: for avg, avgmax and max");
  v.field("pool_include_prefix", self.pool_include_prefix, "pool over the prefix tokens too");
  v.field("drop_rate", self.drop_rate, "dropout before the head",
          {.min = 0, .max = 1, .exclusive_max = true});
  v.field("representation_size", self.representation_size,
          "width of a tanh layer before the head (pre-logits); 0: none",
          {.min = 0, .max = kMaxWidth});
  v.field("logits_scale", self.logits_scale, "factor of the logits; 0.125 divides them by 8",
          {.min = 0, .exclusive_min = true});
  v.field("pretrained", self.pretrained,
          "start from timm's weights of `preset`, which are fetched once (fovea list models "
          "--pretrained); init.weights names others");
}

}  // namespace fovea::models
