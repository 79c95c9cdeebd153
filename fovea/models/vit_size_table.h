// A row of the table of model sizes, and what rows of several families share. For the vit_sizes
// files alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "fovea/models/vit_config.h"

namespace fovea::models::sizes {

struct Size {
  int64_t embed_dim, depth, num_heads;
  double mlp_ratio = 4.0;
};

inline constexpr Size kSmall = {384, 12, 6};
inline constexpr Size kMedium = {512, 12, 8};
inline constexpr Size kBetwixt = {640, 12, 10};
inline constexpr Size kBase = {768, 12, 12};
inline constexpr Size kBasePlus = {896, 12, 14};
inline constexpr Size kLarge = {1024, 24, 16};
inline constexpr Size kHuge = {1280, 32, 16};
inline constexpr Size kGiant = {1408, 40, 16, 48.0 / 11};
inline constexpr Size kGigantic = {1664, 48, 16, 64.0 / 13};

// Mean and standard deviation that the weights were trained with.
struct Pixels {
  std::array<double, 3> mean, std;
};

inline constexpr Pixels kUnit = {{0.0, 0.0, 0.0}, {1.0, 1.0, 1.0}};
inline constexpr Pixels kHalf = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
inline constexpr Pixels kImageNet = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
inline constexpr Pixels kClip = {{0.48145466, 0.4578275, 0.40821073},
                                 {0.26862954, 0.26130258, 0.27577711}};

struct Preset {
  std::string_view name;
  Size size;
  int64_t img_size, patch_size;
  void (*family)(VitConfig&);  // sets it apart from the plain ViT of Dosovitskiy et al. 2021
  int64_t num_classes;
  double crop_pct;
  Pixels pixels;
};

void plain(VitConfig& config);
void siglip(VitConfig& config);
void gap(VitConfig& config);
void gap_tanh(VitConfig& config);

// Trained with labels, and block forms of their own.
std::span<const Preset> supervised_presets();
// Trained with texts, or without labels.
std::span<const Preset> pretrained_presets();

}  // namespace fovea::models::sizes
