// What the ViT says of its parameters: step-0 values, adapted ones, decay and layer numbers.
#include <ATen/core/grad_mode.h>

#include <charconv>
#include <functional>
#include <numeric>

#include "fovea/models/channel_statistics.h"
#include "fovea/models/vit.h"
#include "fovea/nn/init.h"
#include "fovea/nn/pos_embed.h"

namespace fovea::models {
namespace {

// A projection [D, C, P, P] for in_chans channels: the sum for one, else the saved channels in
// turn, scaled so that an image repeated over its channels gives the same tokens.
at::Tensor adapt_channels(const at::Tensor& saved, int64_t in_chans) {
  if (saved.dim() < 4 || saved.size(1) < 1) return {};
  if (in_chans == 1) return saved.sum(1, /*keepdim=*/true);
  const auto channels = saved.size(1);
  std::vector<int64_t> repeats(static_cast<size_t>(saved.dim()), 1);
  repeats[1] = (in_chans + channels - 1) / channels;
  return saved.repeat(repeats).narrow(1, 0, in_chans) *
         (static_cast<double>(channels) / static_cast<double>(in_chans));
}

// A projection of patches on a grid [D, C, P, P] as that of adaptive patches [D, P * P * C], whose
// values stand in the order (P, P, C), and the other way.
at::Tensor adapt_patch_layout(const at::Tensor& saved, const VitConfig& config) {
  if (config.is_adaptive()) return saved.dim() < 4 ? at::Tensor() : saved.movedim(1, -1).flatten(1);
  auto shape = config.patch_sides();
  const auto values = c10::multiply_integers(shape);
  if (saved.dim() != 2 || saved.size(1) % values != 0) return {};
  shape.push_back(-1);
  return saved.unflatten(1, shape).movedim(-1, 1);
}

// "patch_embed.token_embeds.3.proj.weight" starts as "patch_embed.proj.weight" does. The query of
// the variables starts at zero, with which the aggregation is a mean.
std::string init_name(const std::string& name) {
  constexpr std::string_view kTokenizers = "patch_embed.token_embeds.";
  if (!name.starts_with(kTokenizers)) return name;
  return "patch_embed" + name.substr(name.find('.', kTokenizers.size()));
}

}  // namespace

void Vit::init_parameter(const std::string& name, const at::Tensor& value, uint64_t seed) const {
  const at::NoGradGuard no_grad;
  if (name == "patch_embed.var_embed") {
    const auto variables = static_cast<int64_t>(config_.variables.size());
    value.copy_(nn::sincos_pos_embed({variables}, config_.embed_dim, /*num_prefix=*/0));
    return;
  }
  if (name == "pos_embed" && config_.pos_embed.starts_with("sincos")) {
    const auto num_embedded = config_.no_embed_class ? 0 : config_.num_prefix_tokens();
    value.copy_(nn::sincos_pos_embed(grid_size_, config_.embed_dim, num_embedded));
    return;
  }
  const auto patch = config_.patch_sides();
  const nn::VitInitOptions options{
      .scheme = nn::init_scheme_from_name(config_.weight_init),
      .patch_elements =
          std::accumulate(patch.begin(), patch.end(),
                          config_.has_variables() ? 1 : config_.in_chans, std::multiplies<>()),
      .num_classes = config_.num_classes,
      .packed_gate = config_.mlp_layer == "swiglu_packed",
      .layer_scale = config_.init_values.value_or(1.0),
      .branch_norm =
          config_.block_layer == "res_post_norm" ? config_.init_values.value_or(1.0) : 1.0,
      .scale_by_depth = config_.fix_init};
  nn::initialize(value, name, seed, nn::vit_init(init_name(name), value.sizes(), options));
}

InputSpec Vit::input_spec() const {
  return {.in_chans = config_.in_chans,
          .img_size = config_.img_sides(),
          .mean = fit_to_channels(config_.input.mean, config_.in_chans),
          .std = fit_to_channels(config_.input.std, config_.in_chans),
          .crop_pct = config_.input.crop_pct,
          .crop_mode = config_.input.crop_mode,
          .interpolation = config_.input.interpolation,
          .packed_patch_size =
              config_.is_packed() ? std::optional(config_.patch_size[0]) : std::nullopt};
}

std::vector<std::string> Vit::no_weight_decay() const {
  std::vector<std::string> names;
  for (const auto* name :
       {"cls_token", "reg_token", "pos_embed", "pos_embed_y", "pos_embed_x", "dist_token"}) {
    if (named_parameters(/*recurse=*/false).contains(name)) names.emplace_back(name);
  }
  if (!variable_embed_) return names;
  for (const auto* name : {"var_embed", "var_query"}) {
    if (variable_embed_->named_parameters(/*recurse=*/false).contains(name)) {
      names.push_back(std::string("patch_embed.") + name);
    }
  }
  return names;
}

at::Tensor Vit::adapt_parameter(const std::string& name, const at::Tensor& saved) const {
  if (name == "pos_embed") return adapt_pos_embed(saved);
  if (name == "pos_embed_y" || name == "pos_embed_x") {
    if (saved.dim() != 3 || saved.size(0) != 1 || saved.size(1) < 1) return {};
    return nn::resize_side_embed(saved, grid_size_[name == "pos_embed_y" ? 0 : 1]);
  }
  if (init_name(name) != "patch_embed.proj.weight") return {};
  if (const auto adapted = adapt_patch_layout(saved, config_); adapted.defined()) return adapted;
  return name.find("token_embeds") == name.npos ? adapt_channels(saved, config_.in_chans)
                                                : at::Tensor();
}

at::Tensor Vit::adapt_pos_embed(const at::Tensor& saved) const {
  if (config_.is_adaptive()) return {};  // no grid
  return nn::adapt_pos_embed(saved, grid_size_,
                             config_.no_embed_class ? 0 : config_.num_prefix_tokens(),
                             nn::pos_embed_interp_from_name(config_.pos_embed_interp));
}

int64_t Vit::layer_id(const std::string& parameter_name) const {
  for (const auto* stem : {"cls_token", "reg_token", "dist_token", "pos_embed",
                           "adaptive_pos_embed", "patch_embed", "norm_pre"}) {
    if (parameter_name.rfind(stem, 0) == 0) return 0;
  }
  if (parameter_name.rfind("blocks.", 0) == 0) {
    int64_t block = 0;
    std::from_chars(parameter_name.data() + 7, parameter_name.data() + parameter_name.size(),
                    block);
    return block + 1;
  }
  return parameter_name.rfind("norm", 0) == 0 ? config_.depth : config_.depth + 1;
}

int64_t Vit::num_layers() const {
  int64_t last = 0;
  for (const auto& item : named_parameters()) last = std::max(last, layer_id(item.key()));
  return last + 1;
}

}  // namespace fovea::models
