// Every option of T2T-ViT: one field list (see config/fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/models/size_limits.h"
#include "fovea/models/vit_config.h"

namespace fovea::models {

struct T2tVitConfig {
  static constexpr std::string_view kName = "t2t_vit";

  std::string preset;  // the row of the table that the fields started from
  std::vector<int64_t> img_size = {224};
  int64_t in_chans = 3;
  int64_t num_classes = 1000;
  std::string token_attention = "performer";
  int64_t token_dim = 64;
  std::vector<int64_t> split_kernels = {7, 3, 3};
  std::vector<int64_t> split_strides = {4, 2, 2};
  std::vector<int64_t> split_paddings = {2, 1, 1};
  int64_t embed_dim = 384;
  int64_t depth = 14;
  int64_t num_heads = 6;
  double mlp_ratio = 3.0;
  bool qkv_bias = false;
  std::string qk_scale = "head_dim";
  std::optional<double> token_drop_rate;
  double pos_drop_rate = 0.0;
  double proj_drop_rate = 0.0;
  double attn_drop_rate = 0.0;
  double drop_path_rate = 0.0;
  bool drop_path_skip = false;
  double norm_eps = 1e-5;
  VitInputConfig input = {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self);

  // Checks across fields.
  void validate(ConfigIssues& issues) const;

  // Sets every field to those of a preset; false: no such preset.
  bool apply_preset(const std::string& name);
  static std::vector<std::string> preset_names();

  // img_size as [H, W].
  std::vector<int64_t> img_sides() const;
};

template <class Visitor, class Self>
void T2tVitConfig::visit(Visitor& v, Self& self) {
  const FieldOptions width = {.min = 1, .max = kMaxWidth};
  const FieldOptions rate = {.min = 0, .max = 1, .exclusive_max = true};
  v.field("preset", self.preset,
          "named sizes and options (upstream's names); other keys change them");
  v.field("img_size", self.img_size, "sides of the images: one number for a square, or [H, W]",
          {.min = 1, .max = kMaxSide, .unit = "pixels", .one_is_list = true});
  v.field("in_chans", self.in_chans, "channels of the images", width);
  v.field("num_classes", self.num_classes, "outputs of the head; 0: the class token's features",
          {.min = 0, .max = kMaxClasses});
  v.field("token_attention", self.token_attention,
          "attention between the soft splits: performer (linear in the number of tokens) or "
          "transformer (softmax)",
          {.choices = {"performer", "transformer"}});
  v.field("token_dim", self.token_dim, "width of the tokens between the soft splits",
          {.min = 2, .max = kMaxWidth});
  v.field("split_kernels", self.split_kernels, "window sides of the three soft splits",
          {.min = 1, .max = kMaxSide, .unit = "pixels, then tokens"});
  v.field("split_strides", self.split_strides, "steps from window to window",
          {.min = 1, .max = kMaxSide});
  v.field("split_paddings", self.split_paddings, "zeros around what is split",
          {.min = 0, .max = kMaxSide});
  v.field("embed_dim", self.embed_dim, "token width D of the blocks", width);
  v.field("depth", self.depth, "number of blocks", {.min = 1, .max = kMaxDepth});
  v.field("num_heads", self.num_heads, "attention heads H; must divide embed_dim", width);
  v.field("mlp_ratio", self.mlp_ratio, "hidden width of the MLP over embed_dim",
          {.min = 0, .max = kMaxMlpRatio, .exclusive_min = true});
  v.field("qkv_bias", self.qkv_bias, "bias of queries, keys and values of the blocks");
  v.field("qk_scale", self.qk_scale,
          "scale of the blocks' attention: 1 / sqrt(head_dim), or 1 / sqrt(embed_dim) as upstream "
          "has it where its model is made with pretrained=True",
          {.choices = {"head_dim", "embed_dim"}});
  v.field("token_drop_rate", self.token_drop_rate,
          "dropout after the projections between the soft splits; none: 0.1 for performer and 0 "
          "for transformer, as upstream",
          rate);
  v.field("pos_drop_rate", self.pos_drop_rate, "dropout after the position embedding", rate);
  v.field("proj_drop_rate", self.proj_drop_rate, "dropout after the blocks' projections", rate);
  v.field("attn_drop_rate", self.attn_drop_rate, "dropout of attention probabilities", rate);
  v.field("drop_path_rate", self.drop_path_rate,
          "stochastic depth of the last block; earlier ones scale linearly", rate);
  v.field("drop_path_skip", self.drop_path_skip,
          "leave out the work for what drop_path_rate drops: the same draws and, but for rounding, "
          "the same results");
  v.field("norm_eps", self.norm_eps, "epsilon of every norm", {.min = 0, .exclusive_min = true});
  v.field("input", self.input, "preprocessing that the weights expect");
}

}  // namespace fovea::models
