#include "fovea/models/t2t_vit_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fovea/nn/tokens_to_token.h"

namespace fovea::models {
namespace {

// The one table of sizes, with upstream's names.
struct T2tPreset {
  std::string_view name;
  std::string_view token_attention;
  int64_t embed_dim, depth, num_heads;
  double mlp_ratio;
};

constexpr T2tPreset kT2tPresets[] = {
    {"t2t_vit_7", "performer", 256, 7, 4, 2},
    {"t2t_vit_10", "performer", 256, 10, 4, 2},
    {"t2t_vit_12", "performer", 256, 12, 4, 2},
    {"t2t_vit_14", "performer", 384, 14, 6, 3},
    {"t2t_vit_19", "performer", 448, 19, 7, 3},
    {"t2t_vit_24", "performer", 512, 24, 8, 3},
    {"t2t_vit_t_14", "transformer", 384, 14, 6, 3},
    {"t2t_vit_t_19", "transformer", 448, 19, 7, 3},
    {"t2t_vit_t_24", "transformer", 512, 24, 8, 3},
    {"t2t_vit_14_resnext", "performer", 384, 14, 32, 3},
    {"t2t_vit_14_wide", "performer", 768, 4, 12, 3},
};

// Whether the three lists can be read as three soft splits.
bool check_splits(const T2tVitConfig& config, ConfigIssues& issues) {
  bool is_ok = true;
  const auto check = [&](std::string_view key, const std::vector<int64_t>& list) {
    if (list.size() == 3) return;
    is_ok = false;
    issues.add(key, fmt::format("{} has {} numbers, [{}]; expected three, one for each soft split",
                                key, list.size(), fmt::join(list, ", ")));
  };
  check("split_kernels", config.split_kernels);
  check("split_strides", config.split_strides);
  check("split_paddings", config.split_paddings);
  return is_ok;
}

void check_image(const T2tVitConfig& config, ConfigIssues& issues) {
  if (config.img_size.empty() || config.img_size.size() > 2) {
    issues.add("img_size", fmt::format("img_size has {} sides; expected one number, or [H, W]",
                                       config.img_size.size()));
    return;
  }
  if (!check_splits(config, issues)) return;
  for (const auto side : config.img_size) {
    auto tokens = side;
    for (size_t i = 0; i < 3; ++i) {
      const nn::SoftSplit split{config.split_kernels[i], config.split_strides[i],
                                config.split_paddings[i]};
      if (split.kernel < 1 || split.stride < 1) return;  // reported by the ranges of the fields
      tokens = split.num_windows(tokens);
    }
    if (tokens < 1) {
      issues.add("img_size",
                 fmt::format("img_size {} leaves no window of the soft splits; use larger images, "
                             "or smaller split_kernels and split_strides",
                             side));
    }
  }
}

}  // namespace

std::vector<int64_t> T2tVitConfig::img_sides() const {
  return img_size.size() == 1 ? std::vector<int64_t>{img_size[0], img_size[0]} : img_size;
}

void T2tVitConfig::validate(ConfigIssues& issues) const {
  if (num_heads > 0 && embed_dim % num_heads != 0) {
    issues.add("num_heads", {"embed_dim"},
               fmt::format("num_heads {} does not divide embed_dim {}; use a divisor of it",
                           num_heads, embed_dim));
  }
  if (static_cast<double>(embed_dim) * mlp_ratio < 1) {
    issues.add(
        "mlp_ratio", {"embed_dim"},
        fmt::format("mlp_ratio {} leaves no hidden feature of embed_dim {}; use a larger one",
                    mlp_ratio, embed_dim));
  }
  check_image(*this, issues);
}

bool T2tVitConfig::apply_preset(const std::string& name) {
  for (const auto& row : kT2tPresets) {
    if (row.name != name) continue;
    *this = T2tVitConfig();
    preset = row.name;
    token_attention = row.token_attention;
    embed_dim = row.embed_dim;
    depth = row.depth;
    num_heads = row.num_heads;
    mlp_ratio = row.mlp_ratio;
    return true;
  }
  return false;
}

std::vector<std::string> T2tVitConfig::preset_names() {
  std::vector<std::string> names;
  for (const auto& row : kT2tPresets) names.emplace_back(row.name);
  return names;
}

}  // namespace fovea::models
