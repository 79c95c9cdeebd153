// Files of other systems (tools/golden/make_weights.py) and the tiny model that they belong to.
#pragma once

#include <filesystem>
#include <string>

#include "fovea/core/error.h"
#include "fovea/models/vit_config.h"
#include "fovea/nn/tensor_file.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace fovea::weights::testing {

inline std::string foreign_file(const std::string& name) {
  return support::golden_path("weights/" + name);
}

inline const support::Golden& expected() {
  static const auto kGolden = support::load_golden("weights_expected.safetensors");
  return kGolden;
}

inline support::NamedTensors by_name(const nn::NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

// As the constants at the head of the maker.
inline models::VitConfig tiny_vit() {
  models::VitConfig config;
  config.img_size = {16};
  config.patch_size = {8};
  config.num_classes = 5;
  config.embed_dim = 16;
  config.depth = 2;
  config.num_heads = 2;
  config.mlp_ratio = 2;
  return config;
}

using support::TempDir;

// What `act` says when it refuses.
template <class Act>
std::string refusal_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace fovea::weights::testing
