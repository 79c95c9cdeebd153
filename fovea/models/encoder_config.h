// A ViT without a head, as the part of another model: `model: {name: mae, encoder: {...}}`.
#pragma once

#include "fovea/models/vit_config.h"

namespace fovea::models {

// VitConfig's keys and presets, those of pooling and classifier left out.
struct EncoderConfig {
  VitConfig vit = headless({});

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    VitConfig::visit_encoder(v, self.vit);
  }
  void validate(ConfigIssues& issues) const {
    if (vit.is_packed()) {
      issues.add("patching",
                 "packed is for classification with the model vit; use grid, or adaptive where the "
                 "model takes it");
      return;
    }
    vit.validate(issues);
  }

  bool apply_preset(const std::string& name) {
    if (!vit.apply_preset(name)) return false;
    vit = headless(vit);
    return true;
  }
  static std::vector<std::string> preset_names() { return VitConfig::preset_names(); }

  // The same encoder with nothing behind its final norm.
  static VitConfig headless(VitConfig vit) {
    vit.num_classes = 0;
    vit.global_pool = "";
    vit.distilled = false;
    vit.fc_norm = std::nullopt;
    vit.representation_size = 0;
    return vit;
  }
};

}  // namespace fovea::models
