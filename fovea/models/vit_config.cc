#include "fovea/models/vit_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "fovea/models/timm_weights.h"

namespace fovea::models {
namespace {

std::vector<int64_t> sides(const std::vector<int64_t>& given, size_t num_sides) {
  return given.size() == 1 ? std::vector<int64_t>(num_sides, given[0]) : given;
}

size_t num_sides(const VitConfig& config) {
  return std::max({size_t{2}, config.img_size.size(), config.patch_size.size()});
}

std::string divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return fmt::format("{}", fmt::join(divisors, ", "));
}

void check_sides(const VitConfig& config, ConfigIssues& issues) {
  const auto dims = num_sides(config);
  const auto check_count = [&](const char* key, const std::vector<int64_t>& given) {
    if (given.size() == 1 || (given.size() == dims && dims <= 3)) return true;
    issues.add(key, fmt::format("{} has {} sides; expected one number, [H, W] or [D, H, W], the "
                                "same number of sides in img_size and patch_size",
                                key, given.size()));
    return false;
  };
  const bool img_ok = check_count("img_size", config.img_size);
  if (!check_count("patch_size", config.patch_size) || !img_ok) return;
  const auto image = config.img_sides();
  const auto patch = config.patch_sides();
  for (size_t i = 0; i < dims && !config.is_adaptive(); ++i) {
    if (patch[i] < 1 || image[i] < 1) return;  // reported by the ranges of the fields
    const bool is_fitted = config.crop_to_patches || config.dynamic_img_pad;
    if (image[i] < patch[i] || (image[i] % patch[i] != 0 && !is_fitted)) {
      issues.add(
          "img_size", {"patch_size", "patching", "crop_to_patches", "dynamic_img_pad"},
          fmt::format("img_size {} is not divisible by patch_size {}; use a multiple such as "
                      "{}, or dynamic_img_pad or crop_to_patches",
                      image[i], patch[i],
                      std::max<int64_t>(1, (image[i] + patch[i] / 2) / patch[i]) * patch[i]));
      return;
    }
  }
}

void check_pooling(const VitConfig& config, ConfigIssues& issues) {
  if (config.global_pool == "token" && !config.class_token) {
    issues.add("global_pool", {"class_token"},
               fmt::format("global_pool is {}, but class_token is false; use avg or "
                           "map, or class_token: true",
                           config.global_pool));
  }
  if (config.distilled &&
      (config.global_pool != "token" || config.representation_size > 0 || config.reg_tokens > 0)) {
    issues.add("distilled", {"global_pool", "representation_size", "reg_tokens"},
               fmt::format("distilled reads the class and distillation tokens, found "
                           "global_pool '{}', {} reg_tokens and representation_size "
                           "{}; use token, 0 and 0",
                           config.global_pool, config.reg_tokens, config.representation_size));
  }
  if (config.global_pool.empty() && config.representation_size > 0) {
    issues.add("representation_size", {"global_pool"},
               fmt::format("representation_size is {}, but global_pool is '' (no pooling); use a "
                           "pooling or representation_size: 0",
                           config.representation_size));
  }
}

void check_position(const VitConfig& config, ConfigIssues& issues) {
  const bool is_sincos = config.pos_embed == "sincos" || config.pos_embed == "sincos_learn";
  const auto multiple = static_cast<int64_t>(2 * num_sides(config));
  if (is_sincos && config.embed_dim % multiple != 0) {
    issues.add("pos_embed", {"embed_dim", "img_size", "patch_size"},
               fmt::format("pos_embed {} with embed_dim {}; expected an embed_dim divisible by {} "
                           "(sine and cosine of each side), or pos_embed: learn",
                           config.pos_embed, config.embed_dim, multiple));
  }
}

void check_factorized(const VitConfig& config, ConfigIssues& issues) {
  if (!config.has_factorized_pos() || (!config.is_adaptive() && num_sides(config) == 2)) return;
  issues.add(
      "pos_embed", {"patching", "img_size", "patch_size"},
      fmt::format("pos_embed factorized is of the rows and columns of an image's grid, found {}; "
                  "use {}",
                  config.is_adaptive() ? "patching: adaptive" : "volumes",
                  config.is_adaptive() ? "size_and_center or learn" : "learn or sincos"));
}

void check_packed(const VitConfig& config, ConfigIssues& issues) {
  if (!config.is_packed()) return;
  const auto patch = config.patch_sides();
  if (patch.size() != 2 || patch[0] != patch[1]) {
    issues.add("patch_size", {"patching"},
               fmt::format("patch_size [{}] with patching: packed, which is of images and square "
                           "patches; expected one number",
                           fmt::join(patch, ", ")));
  }
  if (config.global_pool.empty()) {
    issues.add("global_pool", {"patching"},
               "global_pool is '' with patching: packed, whose images have different numbers of "
               "tokens; use token, avg, avgmax, max or map");
  }
  if (config.has_variables()) {
    issues.add("variables", {"patching"},
               "found names with patching: packed, which has one patch embedding for all channels; "
               "leave them out, or use patching: grid");
  }
  if (config.dynamic_img_pad || config.crop_to_patches) {
    issues.add(config.dynamic_img_pad ? "dynamic_img_pad" : "crop_to_patches", {"patching"},
               "found true with patching: packed, whose images are whole patches already "
               "(resize_to_patches); leave it out");
  }
  if (config.drop_path_skip) {
    issues.add(
        "drop_path_skip", {"patching"},
        "found true with patching: packed, where samples are no rows that could be left out; "
        "expected false");
  }
}

void check_adaptive(const VitConfig& config, ConfigIssues& issues) {
  if (!config.is_adaptive()) {
    if (config.pos_embed == "size_and_center") {
      issues.add(
          "pos_embed", {"patching"},
          "pos_embed size_and_center is for adaptive patches; use learn or sincos, or patching: "
          "adaptive");
    }
    return;
  }
  if (config.pos_embed == "sincos" || config.pos_embed == "sincos_learn") {
    issues.add("pos_embed", {"patching"},
               fmt::format("pos_embed {} needs a grid, which adaptive patches have not; use "
                           "size_and_center or learn",
                           config.pos_embed));
  }
  const auto patch = config.patch_sides();
  if (std::any_of(patch.begin(), patch.end(), [&](int64_t side) { return side != patch[0]; })) {
    issues.add("patch_size", {"patching"},
               fmt::format("patch_size [{}] with patching: adaptive; expected one number",
                           fmt::join(patch, ", ")));
  }
  if (config.patch_drop_rate > 0 || config.dynamic_img_size) {
    issues.add("patching", {"patch_drop_rate", "dynamic_img_size"},
               fmt::format("patching: adaptive with patch_drop_rate {} and dynamic_img_size {}; "
                           "expected 0 and false",
                           config.patch_drop_rate, config.dynamic_img_size));
  }
}

void check_variables(const VitConfig& config, ConfigIssues& issues) {
  const auto& names = config.variables;
  if (names.empty()) {
    if (config.single_channel || config.share_patch_embed) {
      issues.add(config.single_channel ? "single_channel" : "share_patch_embed", {"variables"},
                 "true without variables; name the channels: variables: [red, green, blue]");
    }
    return;
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (!name->empty() && std::find(names.begin(), name, *name) == name) continue;
    issues.add("variables", fmt::format("'{}' {}; expected names that differ", *name,
                                        name->empty() ? "is no name" : "stands there twice"));
  }
  const auto expected = config.single_channel ? 1 : static_cast<int64_t>(names.size());
  if (config.in_chans != expected) {
    issues.add(
        "in_chans", {"variables", "single_channel"},
        fmt::format("in_chans {} with {} variables{}; set in_chans: {}", config.in_chans,
                    names.size(), config.single_channel ? " and single_channel" : "", expected));
  }
  if (config.embed_dim % 2 != 0) {
    issues.add(
        "embed_dim", {"variables"},
        fmt::format("embed_dim {} with variables, whose embeddings start as sine and cosine; "
                    "expected an even width",
                    config.embed_dim));
  }
}

void check_widths(const VitConfig& config, ConfigIssues& issues) {
  if (config.num_heads > 0 && config.embed_dim > 0 && config.embed_dim % config.num_heads != 0) {
    issues.add("num_heads", {"embed_dim"},
               fmt::format("num_heads {} does not divide embed_dim {}; use one of {}",
                           config.num_heads, config.embed_dim, divisors_of(config.embed_dim)));
  }
  const auto hidden = static_cast<int64_t>(config.embed_dim * config.mlp_ratio);
  if (hidden < 1 || (config.mlp_layer == "swiglu_packed" && hidden % 2 != 0)) {
    issues.add(
        "mlp_ratio", {"embed_dim", "mlp_layer"},
        fmt::format("mlp_ratio {} gives {} hidden features; expected at least 1, and an even "
                    "number for swiglu_packed",
                    config.mlp_ratio, hidden));
  }
  if (config.weight_init == "jax_nlhb" && config.num_classes == 0) {
    issues.add("weight_init", {"num_classes"},
               fmt::format("weight_init {} sets the head's bias to "
                           "-log(num_classes), but num_classes is 0; use jax",
                           config.weight_init));
  }
}

// What a form of block leaves out in timm, too, but there without a word.
void check_block(const VitConfig& config, ConfigIssues& issues) {
  const auto refuse = [&](const char* key, const std::string& found, const char* why) {
    issues.add(key, {"block_layer"},
               fmt::format("{} {} with block_layer {}, {}", key, found, config.block_layer, why));
  };
  const bool is_scaling = config.block_layer == "parallel_scaling";
  const char* inner = "whose outputs have no norm in front; expected false";
  if (is_scaling && config.scale_attn_norm) refuse("scale_attn_norm", "true", inner);
  if (is_scaling && config.scale_mlp_norm) refuse("scale_mlp_norm", "true", inner);
  if (is_scaling && config.mlp_layer != "mlp") {
    refuse("mlp_layer", config.mlp_layer, "whose MLP is part of its projections; expected mlp");
  }
  if (config.fix_init && config.block_layer.starts_with("parallel_")) {
    refuse("fix_init", "true",
           "which has not the one attn.proj and mlp.fc2 that it scales; expected false");
  }
  if (config.attn_layer == "diff" && config.num_heads > 0 &&
      config.embed_dim % (2 * config.num_heads) != 0) {
    issues.add(
        "attn_layer", {"embed_dim", "num_heads"},
        fmt::format("attn_layer diff with embed_dim {} and num_heads {}: each head is halved; "
                    "expected an embed_dim divisible by {}, or other num_heads",
                    config.embed_dim, config.num_heads, 2 * config.num_heads));
  }
  if (config.embed_norm && (config.is_adaptive() || config.has_variables())) {
    issues.add(
        "embed_norm", {"patching", "variables"},
        fmt::format("embed_norm true with {}; expected false{}",
                    config.is_adaptive() ? "patching: adaptive" : "variables",
                    config.is_adaptive() ? ", and patch_norm for norms around the embedding" : ""));
  }
}

void check_pretrained(const VitConfig& config, ConfigIssues& issues) {
  if (!config.pretrained || !timm_repository(config.preset).empty()) return;
  issues.add("pretrained", {"preset"},
             config.preset.empty()
                 ? "true without a preset; expected a preset that timm has weights of, or "
                   "init.weights"
                 : fmt::format("true, but timm has no weights of {}; `fovea list models "
                               "--pretrained` shows of which it has, and init.weights takes others",
                               config.preset));
}

}  // namespace

std::vector<int64_t> VitConfig::img_sides() const { return sides(img_size, num_sides(*this)); }

std::vector<int64_t> VitConfig::patch_sides() const { return sides(patch_size, num_sides(*this)); }

void VitConfig::validate(ConfigIssues& issues) const {
  check_widths(*this, issues);
  check_block(*this, issues);
  check_sides(*this, issues);
  check_pooling(*this, issues);
  check_position(*this, issues);
  check_factorized(*this, issues);
  check_packed(*this, issues);
  check_adaptive(*this, issues);
  check_variables(*this, issues);
  check_pretrained(*this, issues);
}

}  // namespace fovea::models
