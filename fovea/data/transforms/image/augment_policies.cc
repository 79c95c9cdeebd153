#include "fovea/data/transforms/image/augment_policies.h"

#include <string>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

struct PolicyEntry {
  std::string_view name;
  double prob;
  double magnitude;
};

using PolicyTable = std::vector<std::vector<PolicyEntry>>;

const PolicyTable& original_table() {
  static const PolicyTable table = {
      {{"PosterizeOriginal", 0.4, 8}, {"Rotate", 0.6, 9}},
      {{"Solarize", 0.6, 5}, {"AutoContrast", 0.6, 5}},
      {{"Equalize", 0.8, 8}, {"Equalize", 0.6, 3}},
      {{"PosterizeOriginal", 0.6, 7}, {"PosterizeOriginal", 0.6, 6}},
      {{"Equalize", 0.4, 7}, {"Solarize", 0.2, 4}},
      {{"Equalize", 0.4, 4}, {"Rotate", 0.8, 8}},
      {{"Solarize", 0.6, 3}, {"Equalize", 0.6, 7}},
      {{"PosterizeOriginal", 0.8, 5}, {"Equalize", 1.0, 2}},
      {{"Rotate", 0.2, 3}, {"Solarize", 0.6, 8}},
      {{"Equalize", 0.6, 8}, {"PosterizeOriginal", 0.4, 6}},
      {{"Rotate", 0.8, 8}, {"Color", 0.4, 0}},
      {{"Rotate", 0.4, 9}, {"Equalize", 0.6, 2}},
      {{"Equalize", 0.0, 7}, {"Equalize", 0.8, 8}},
      {{"Invert", 0.6, 4}, {"Equalize", 1.0, 8}},
      {{"Color", 0.6, 4}, {"Contrast", 1.0, 8}},
      {{"Rotate", 0.8, 8}, {"Color", 1.0, 2}},
      {{"Color", 0.8, 8}, {"Solarize", 0.8, 7}},
      {{"Sharpness", 0.4, 7}, {"Invert", 0.6, 8}},
      {{"ShearX", 0.6, 5}, {"Equalize", 1.0, 9}},
      {{"Color", 0.4, 0}, {"Equalize", 0.6, 3}},
      {{"Equalize", 0.4, 7}, {"Solarize", 0.2, 4}},
      {{"Solarize", 0.6, 5}, {"AutoContrast", 0.6, 5}},
      {{"Invert", 0.6, 4}, {"Equalize", 1.0, 8}},
      {{"Color", 0.6, 4}, {"Contrast", 1.0, 8}},
      {{"Equalize", 0.8, 8}, {"Equalize", 0.6, 3}},
  };
  return table;
}

const PolicyTable& v0_table() {
  static const PolicyTable table = {
      {{"Equalize", 0.8, 1}, {"ShearY", 0.8, 4}},
      {{"Color", 0.4, 9}, {"Equalize", 0.6, 3}},
      {{"Color", 0.4, 1}, {"Rotate", 0.6, 8}},
      {{"Solarize", 0.8, 3}, {"Equalize", 0.4, 7}},
      {{"Solarize", 0.4, 2}, {"Solarize", 0.6, 2}},
      {{"Color", 0.2, 0}, {"Equalize", 0.8, 8}},
      {{"Equalize", 0.4, 8}, {"SolarizeAdd", 0.8, 3}},
      {{"ShearX", 0.2, 9}, {"Rotate", 0.6, 8}},
      {{"Color", 0.6, 1}, {"Equalize", 1.0, 2}},
      {{"Invert", 0.4, 9}, {"Rotate", 0.6, 0}},
      {{"Equalize", 1.0, 9}, {"ShearY", 0.6, 3}},
      {{"Color", 0.4, 7}, {"Equalize", 0.6, 0}},
      {{"Posterize", 0.4, 6}, {"AutoContrast", 0.4, 7}},
      {{"Solarize", 0.6, 8}, {"Color", 0.6, 9}},
      {{"Solarize", 0.2, 4}, {"Rotate", 0.8, 9}},
      {{"Rotate", 1.0, 7}, {"TranslateYRel", 0.8, 9}},
      {{"ShearX", 0.0, 0}, {"Solarize", 0.8, 4}},
      {{"ShearY", 0.8, 0}, {"Color", 0.6, 4}},
      {{"Color", 1.0, 0}, {"Rotate", 0.6, 2}},
      {{"Equalize", 0.8, 4}, {"Equalize", 0.0, 8}},
      {{"Equalize", 1.0, 4}, {"AutoContrast", 0.6, 2}},
      {{"ShearY", 0.4, 7}, {"SolarizeAdd", 0.6, 7}},
      {{"Posterize", 0.8, 2}, {"Solarize", 0.6, 10}},
      {{"Solarize", 0.6, 8}, {"Equalize", 0.6, 1}},
      {{"Color", 0.8, 6}, {"Rotate", 0.4, 5}},
  };
  return table;
}

const PolicyTable& three_augment_table() {
  static const PolicyTable table = {
      {{"Solarize", 1.0, 5}},
      {{"Desaturate", 1.0, 10}},
      {{"GaussianBlurRand", 1.0, 10}},
  };
  return table;
}

// The variants with an r differ from their namesakes in how Posterize counts.
std::vector<std::vector<AugmentOp>> make_policy(const PolicyTable& table, bool is_research) {
  std::vector<std::vector<AugmentOp>> policy;
  for (const auto& entries : table) {
    auto& ops = policy.emplace_back();
    for (const auto& entry : entries) {
      const bool is_posterize = entry.name.substr(0, 9) == "Posterize";
      const auto name = is_research && is_posterize ? "PosterizeIncreasing" : entry.name;
      ops.push_back({augment_op_kind(name), entry.prob, entry.magnitude});
    }
  }
  return policy;
}

}  // namespace

std::vector<std::vector<AugmentOp>> auto_augment_policy(std::string_view name) {
  if (name == "original") return make_policy(original_table(), false);
  if (name == "originalr") return make_policy(original_table(), true);
  if (name == "v0") return make_policy(v0_table(), false);
  if (name == "v0r") return make_policy(v0_table(), true);
  if (name == "3a") return make_policy(three_augment_table(), false);
  return {};
}

std::vector<WeightedOp> rand_augment_choices(std::string_view transforms, bool is_increasing) {
  if (transforms == "weights") {
    return {
        {"Rotate", 3},
        {"ShearX", 2},
        {"ShearY", 2},
        {"TranslateXRel", 1},
        {"TranslateYRel", 1},
        {"ColorIncreasing", 0.25},
        {"SharpnessIncreasing", 0.25},
        {"AutoContrast", 0.25},
        {"SolarizeIncreasing", 0.05},
        {"SolarizeAdd", 0.05},
        {"ContrastIncreasing", 0.05},
        {"BrightnessIncreasing", 0.05},
        {"Equalize", 0.05},
        {"PosterizeIncreasing", 0.05},
        {"Invert", 0.05},
    };
  }
  if (transforms == "3aw") {
    return {
        {"SolarizeIncreasing", 6},
        {"Desaturate", 6},
        {"GaussianBlur", 6},
        {"Rotate", 3},
        {"ShearX", 2},
        {"ShearY", 2},
        {"PosterizeIncreasing", 1},
        {"AutoContrast", 1},
        {"ColorIncreasing", 1},
        {"SharpnessIncreasing", 1},
        {"ContrastIncreasing", 1},
        {"BrightnessIncreasing", 1},
        {"Equalize", 1},
        {"Invert", 1},
    };
  }
  if (transforms == "3a")
    return {{"SolarizeIncreasing", 0}, {"Desaturate", 0}, {"GaussianBlur", 0}};
  if (!transforms.empty()) {
    fail<ConfigError>("t{}: no such choice of operations; expected tweights, t3a or t3aw",
                      transforms);
  }
  if (is_increasing) {
    return {
        {"AutoContrast", 0},
        {"Equalize", 0},
        {"Invert", 0},
        {"Rotate", 0},
        {"PosterizeIncreasing", 0},
        {"SolarizeIncreasing", 0},
        {"SolarizeAdd", 0},
        {"ColorIncreasing", 0},
        {"ContrastIncreasing", 0},
        {"BrightnessIncreasing", 0},
        {"SharpnessIncreasing", 0},
        {"ShearX", 0},
        {"ShearY", 0},
        {"TranslateXRel", 0},
        {"TranslateYRel", 0},
    };
  }
  return {
      {"AutoContrast", 0}, {"Equalize", 0},      {"Invert", 0},        {"Rotate", 0},
      {"Posterize", 0},    {"Solarize", 0},      {"SolarizeAdd", 0},   {"Color", 0},
      {"Contrast", 0},     {"Brightness", 0},    {"Sharpness", 0},     {"ShearX", 0},
      {"ShearY", 0},       {"TranslateXRel", 0}, {"TranslateYRel", 0},
  };
}

std::vector<std::string_view> aug_mix_choices() {
  return {"AutoContrast",
          "ColorIncreasing",
          "ContrastIncreasing",
          "BrightnessIncreasing",
          "SharpnessIncreasing",
          "Equalize",
          "Rotate",
          "PosterizeIncreasing",
          "SolarizeIncreasing",
          "ShearX",
          "ShearY",
          "TranslateXRel",
          "TranslateYRel"};
}

}  // namespace fovea::data
