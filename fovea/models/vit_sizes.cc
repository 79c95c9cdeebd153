// The table of model sizes: timm's names, structures and preprocessing. Its rows are in
// vit_sizes_supervised.cc and vit_sizes_pretrained.cc.
#include "fovea/models/vit_config.h"
#include "fovea/models/vit_size_table.h"

namespace fovea::models {
namespace sizes {

void plain(VitConfig& /*config*/) {}

void siglip(VitConfig& config) {
  config.class_token = false;
  config.global_pool = "map";
}

void gap(VitConfig& config) {
  config.class_token = false;
  config.global_pool = "avg";
  config.fc_norm = false;
}

void gap_tanh(VitConfig& config) {
  gap(config);
  config.act_layer = "gelu_tanh";
}

}  // namespace sizes

bool VitConfig::apply_preset(const std::string& name) {
  for (const auto& table : {sizes::supervised_presets(), sizes::pretrained_presets()}) {
    for (const auto& row : table) {
      if (row.name != name) continue;
      *this = VitConfig();
      preset = row.name;
      img_size = {row.img_size};
      patch_size = {row.patch_size};
      num_classes = row.num_classes;
      embed_dim = row.size.embed_dim;
      depth = row.size.depth;
      num_heads = row.size.num_heads;
      mlp_ratio = row.size.mlp_ratio;
      crop_to_patches = row.img_size % row.patch_size != 0;
      input.mean.assign(row.pixels.mean.begin(), row.pixels.mean.end());
      input.std.assign(row.pixels.std.begin(), row.pixels.std.end());
      input.crop_pct = row.crop_pct;
      row.family(*this);
      return true;
    }
  }
  return false;
}

std::vector<std::string> VitConfig::preset_names() {
  std::vector<std::string> names;
  for (const auto& table : {sizes::supervised_presets(), sizes::pretrained_presets()}) {
    for (const auto& row : table) names.emplace_back(row.name);
  }
  return names;
}

}  // namespace fovea::models
