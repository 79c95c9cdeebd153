#include "fovea/weights/naming.h"

#include <fmt/ranges.h>

#include "fovea/core/error.h"

namespace fovea::weights {

const std::vector<Naming>& namings() {
  static const std::vector<Naming> kNamings = {huggingface_mae_naming(),
                                               huggingface_dinov2_naming(),
                                               huggingface_vit_naming(),
                                               google_naming(),
                                               rosetta_naming(),
                                               t2t_vit_naming(),
                                               te_naming(),
                                               bionemo_naming(),
                                               ucf_vit_naming(),
                                               mae_naming(),
                                               dinov2_naming(),
                                               timm_naming()};
  return kNamings;
}

std::vector<std::string> naming_names() {
  std::vector<std::string> names;
  for (const auto& naming : namings()) names.emplace_back(naming.name);
  return names;
}

const Naming& naming_named(std::string_view name) {
  for (const auto& naming : namings()) {
    if (naming.name == name) return naming;
  }
  fail<ConfigError>("'{}' is no naming of weights; expected one of {}", name,
                    fmt::join(naming_names(), ", "));
}

}  // namespace fovea::weights
