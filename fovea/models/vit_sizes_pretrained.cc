// Sizes of ViTs that were trained with texts or without labels: timm's names, structures and
// preprocessing.
#include "fovea/models/vit_size_table.h"

namespace fovea::models::sizes {
namespace {

constexpr Size kXSmall = {256, 10, 4};
constexpr Size kSo400m = {1152, 27, 16, 3.7362};
constexpr Size kSo400mExact = {1152, 27, 16, 4304.0 / 1152};
constexpr Size kGiantDinov2 = {1536, 40, 24, 2.66667 * 2};
constexpr Size kGiantRadio = {1536, 40, 24};
constexpr Size kGiantOpt = {1536, 40, 16};
constexpr Size kAimLarge = {1024, 24, 8, 2.75};
constexpr Size kAimHuge = {1536, 24, 12, 2.6667};
constexpr Size kAim1b = {2048, 24, 16, 2.75};
constexpr Size kAim3b = {3072, 24, 24, 2.6667};

void clip(VitConfig& config) {
  config.pre_norm = true;
  config.norm_eps = 1e-5;
}

void clip_quickgelu(VitConfig& config) {
  clip(config);
  config.act_layer = "quick_gelu";
}

void siglip_tanh(VitConfig& config) {
  siglip(config);
  config.act_layer = "gelu_tanh";
}

void swiglu(VitConfig& config) {
  config.mlp_layer = "swiglu_packed";
  config.act_layer = "silu";
}

void dinov2(VitConfig& config) {
  config.init_values = 1e-5;
  config.pos_embed_interp = "dinov2";
}

void dinov2_giant(VitConfig& config) {
  dinov2(config);
  swiglu(config);
}

void dinov2_reg(VitConfig& config) {
  config.init_values = 1e-5;
  config.reg_tokens = 4;
  config.no_embed_class = true;
}

void dinov2_reg_giant(VitConfig& config) {
  dinov2_reg(config);
  swiglu(config);
}

void tipsv2(VitConfig& config) {
  config.init_values = 1.0;
  config.reg_tokens = 1;
  config.no_embed_class = true;
}

void tipsv2_giant(VitConfig& config) {
  tipsv2(config);
  swiglu(config);
}

void radio(VitConfig& config, int64_t reg_tokens) {
  config.reg_tokens = reg_tokens;
  config.no_embed_class = true;
  config.final_norm = false;
  config.pos_embed_interp = "bilinear";
}

void radio_v3(VitConfig& config) {
  radio(config, 7);
  config.init_values = 1e-5;
}

void radio_v3_large(VitConfig& config) { radio(config, 7); }

void radio_v4(VitConfig& config) { radio(config, 9); }

void intern(VitConfig& config) {
  config.init_values = 0.1;
  config.final_norm = false;
  config.dynamic_img_size = true;
}

// Fini et al. 2024, "Multimodal autoregressive pre-training of large vision encoders".
void aimv2(VitConfig& config) {
  gap(config);
  config.qkv_bias = config.proj_bias = false;
  config.mlp_layer = "swiglu";
  config.act_layer = "silu";
  config.norm_layer = "rms_norm";
  config.norm_eps = 1e-5;
  config.embed_norm = true;
}

constexpr Preset kPretrained[] = {
    {"vit_xsmall_patch16_clip_224", kXSmall, 224, 16, clip, 512, 0.9, kClip},
    {"vit_small_patch14_dinov2", kSmall, 518, 14, dinov2, 0, 1, kImageNet},
    {"vit_small_patch14_reg4_dinov2", kSmall, 518, 14, dinov2_reg, 0, 1, kImageNet},
    {"vit_medium_patch16_clip_224", kMedium, 224, 16, clip, 512, 0.9, kClip},
    {"vit_medium_patch32_clip_224", kMedium, 224, 32, clip, 512, 0.9, kClip},
    {"vit_betwixt_patch32_clip_224", kBetwixt, 224, 32, clip, 512, 0.9, kClip},
    {"vit_base_patch14_reg1_tipsv2", kBase, 448, 14, tipsv2, 0, 1, kUnit},
    {"vit_base_patch16_radio_v3", kBase, 512, 16, radio_v3, 0, 1, kClip},
    {"vit_base_patch14_dinov2", kBase, 518, 14, dinov2, 0, 1, kImageNet},
    {"vit_base_patch14_reg4_dinov2", kBase, 518, 14, dinov2_reg, 0, 1, kImageNet},
    {"vit_base_patch16_siglip_224", kBase, 224, 16, siglip, 0, 0.9, kHalf},
    {"vit_base_patch16_siglip_256", kBase, 256, 16, siglip, 0, 0.9, kHalf},
    {"vit_base_patch16_siglip_384", kBase, 384, 16, siglip, 0, 0.9, kHalf},
    {"vit_base_patch16_siglip_512", kBase, 512, 16, siglip, 0, 0.9, kHalf},
    {"vit_base_patch32_siglip_256", kBase, 256, 32, siglip_tanh, 0, 0.9, kHalf},
    {"vit_base_patch16_siglip_gap_224", kBase, 224, 16, gap, 0, 0.9, kHalf},
    {"vit_base_patch16_siglip_gap_256", kBase, 256, 16, gap, 0, 0.9, kHalf},
    {"vit_base_patch16_siglip_gap_384", kBase, 384, 16, gap, 0, 0.9, kHalf},
    {"vit_base_patch16_siglip_gap_512", kBase, 512, 16, gap, 0, 0.9, kHalf},
    {"vit_base_patch32_siglip_gap_256", kBase, 256, 32, gap_tanh, 0, 0.9, kHalf},
    {"vit_base_patch16_clip_224", kBase, 224, 16, clip, 1000, 0.95, kClip},
    {"vit_base_patch16_clip_384", kBase, 384, 16, clip, 1000, 1, kClip},
    {"vit_base_patch16_clip_quickgelu_224", kBase, 224, 16, clip_quickgelu, 512, 1, kClip},
    {"vit_base_patch16_plus_clip_240", kBasePlus, 240, 16, clip, 640, 1, kClip},
    {"vit_base_patch32_clip_224", kBase, 224, 32, clip, 1000, 0.9, kClip},
    {"vit_base_patch32_clip_256", kBase, 256, 32, clip, 512, 1, kClip},
    {"vit_base_patch32_clip_384", kBase, 384, 32, clip, 1000, 1, kClip},
    {"vit_base_patch32_clip_448", kBase, 448, 32, clip, 1000, 1, kClip},
    {"vit_base_patch32_clip_quickgelu_224", kBase, 224, 32, clip_quickgelu, 512, 0.9, kClip},
    {"vit_large_patch14_reg1_tipsv2", kLarge, 448, 14, tipsv2, 0, 1, kUnit},
    {"vit_large_patch16_radio_v3", kLarge, 512, 16, radio_v3, 0, 1, kClip},
    {"vit_large_patch14_dinov2", kLarge, 518, 14, dinov2, 0, 1, kImageNet},
    {"vit_large_patch14_reg4_dinov2", kLarge, 518, 14, dinov2_reg, 0, 1, kImageNet},
    {"vit_large_patch16_siglip_256", kLarge, 256, 16, siglip, 0, 0.9, kHalf},
    {"vit_large_patch16_siglip_384", kLarge, 384, 16, siglip, 0, 0.9, kHalf},
    {"vit_large_patch16_siglip_512", kLarge, 512, 16, siglip_tanh, 0, 0.9, kHalf},
    {"vit_large_patch16_siglip_gap_256", kLarge, 256, 16, gap, 0, 0.9, kHalf},
    {"vit_large_patch16_siglip_gap_384", kLarge, 384, 16, gap, 0, 0.9, kHalf},
    {"vit_large_patch16_siglip_gap_512", kLarge, 512, 16, gap_tanh, 0, 0.9, kHalf},
    {"vit_large_patch14_clip_224", kLarge, 224, 14, clip, 1000, 1, kHalf},
    {"vit_large_patch14_clip_336", kLarge, 336, 14, clip, 1000, 1, kHalf},
    {"vit_large_patch14_clip_quickgelu_224", kLarge, 224, 14, clip_quickgelu, 768, 1, kClip},
    {"vit_large_patch14_clip_quickgelu_336", kLarge, 336, 14, clip_quickgelu, 768, 1, kClip},
    {"vit_huge_patch16_radio_v3", kHuge, 512, 16, radio_v3_large, 0, 1, kClip},
    {"vit_huge_patch16_radio_v4", kHuge, 512, 16, radio_v4, 0, 1, kClip},
    {"vit_huge_patch14_clip_224", kHuge, 224, 14, clip, 1000, 1, kClip},
    {"vit_huge_patch14_clip_336", kHuge, 336, 14, clip, 1000, 1, kClip},
    {"vit_huge_patch14_clip_378", kHuge, 378, 14, clip, 1024, 1, kClip},
    {"vit_huge_patch14_clip_quickgelu_224", kHuge, 224, 14, clip_quickgelu, 1024, 1, kClip},
    {"vit_huge_patch14_clip_quickgelu_378", kHuge, 378, 14, clip_quickgelu, 1024, 1, kClip},
    {"vit_giant_patch14_reg1_tipsv2", kGiantDinov2, 448, 14, tipsv2_giant, 0, 1, kUnit},
    {"vit_giant_patch16_radio_v3", kGiantRadio, 512, 16, radio_v3_large, 0, 1, kClip},
    {"vit_giant_patch14_dinov2", kGiantDinov2, 518, 14, dinov2_giant, 0, 1, kImageNet},
    {"vit_giant_patch14_reg4_dinov2", kGiantDinov2, 518, 14, dinov2_reg_giant, 0, 1, kImageNet},
    {"vit_giantopt_patch16_siglip_256", kGiantOpt, 256, 16, siglip_tanh, 0, 0.9, kHalf},
    {"vit_giantopt_patch16_siglip_384", kGiantOpt, 384, 16, siglip_tanh, 0, 0.9, kHalf},
    {"vit_giantopt_patch16_siglip_gap_256", kGiantOpt, 256, 16, gap_tanh, 0, 0.9, kHalf},
    {"vit_giantopt_patch16_siglip_gap_384", kGiantOpt, 384, 16, gap_tanh, 0, 0.9, kHalf},
    {"vit_giant_patch14_clip_224", kGiant, 224, 14, clip, 1024, 1, kClip},
    {"vit_gigantic_patch14_clip_224", kGigantic, 224, 14, clip, 1280, 1, kClip},
    {"vit_gigantic_patch14_clip_378", kGigantic, 378, 14, clip, 1280, 1, kClip},
    {"vit_gigantic_patch14_clip_quickgelu_224", kGigantic, 224, 14, clip_quickgelu, 1280, 1, kClip},
    {"vit_so400m_patch14_reg1_tipsv2", kSo400mExact, 448, 14, tipsv2, 0, 1, kUnit},
    {"vit_so400m_patch16_radio_v4", kSo400mExact, 512, 16, radio_v4, 0, 1, kClip},
    {"vit_so400m_patch14_siglip_224", kSo400m, 224, 14, siglip, 0, 0.9, kHalf},
    {"vit_so400m_patch14_siglip_378", kSo400m, 378, 14, siglip, 0, 0.9, kHalf},
    {"vit_so400m_patch14_siglip_384", kSo400m, 384, 14, siglip, 0, 0.9, kHalf},
    {"vit_so400m_patch16_siglip_256", kSo400m, 256, 16, siglip_tanh, 0, 0.9, kHalf},
    {"vit_so400m_patch16_siglip_384", kSo400m, 384, 16, siglip_tanh, 0, 0.9, kHalf},
    {"vit_so400m_patch16_siglip_512", kSo400m, 512, 16, siglip_tanh, 0, 0.9, kHalf},
    {"vit_so400m_patch14_siglip_gap_224", kSo400m, 224, 14, gap, 0, 0.9, kHalf},
    {"vit_so400m_patch14_siglip_gap_378", kSo400m, 378, 14, gap, 0, 0.9, kHalf},
    {"vit_so400m_patch14_siglip_gap_384", kSo400m, 384, 14, gap, 0, 1, kHalf},
    {"vit_so400m_patch14_siglip_gap_448", kSo400m, 448, 14, gap, 0, 1, kHalf},
    {"vit_so400m_patch14_siglip_gap_896", kSo400m, 896, 14, gap, 0, 1, kHalf},
    {"vit_so400m_patch16_siglip_gap_256", kSo400m, 256, 16, gap_tanh, 0, 0.9, kHalf},
    {"vit_so400m_patch16_siglip_gap_384", kSo400m, 384, 16, gap_tanh, 0, 0.9, kHalf},
    {"vit_so400m_patch16_siglip_gap_512", kSo400m, 512, 16, gap_tanh, 0, 0.9, kHalf},
    {"vit_intern300m_patch14_448", kLarge, 448, 14, intern, 0, 1, kImageNet},
    {"aimv2_large_patch14_224", kAimLarge, 224, 14, aimv2, 0, 1, kClip},
    {"aimv2_huge_patch14_224", kAimHuge, 224, 14, aimv2, 0, 1, kClip},
    {"aimv2_1b_patch14_224", kAim1b, 224, 14, aimv2, 0, 1, kClip},
    {"aimv2_3b_patch14_224", kAim3b, 224, 14, aimv2, 0, 1, kClip},
    {"aimv2_large_patch14_336", kAimLarge, 336, 14, aimv2, 0, 1, kClip},
    {"aimv2_huge_patch14_336", kAimHuge, 336, 14, aimv2, 0, 1, kClip},
    {"aimv2_1b_patch14_336", kAim1b, 336, 14, aimv2, 0, 1, kClip},
    {"aimv2_3b_patch14_336", kAim3b, 336, 14, aimv2, 0, 1, kClip},
    {"aimv2_large_patch14_448", kAimLarge, 448, 14, aimv2, 0, 1, kClip},
    {"aimv2_huge_patch14_448", kAimHuge, 448, 14, aimv2, 0, 1, kClip},
    {"aimv2_1b_patch14_448", kAim1b, 448, 14, aimv2, 0, 1, kClip},
    {"aimv2_3b_patch14_448", kAim3b, 448, 14, aimv2, 0, 1, kClip},
};

}  // namespace

std::span<const Preset> pretrained_presets() { return kPretrained; }

}  // namespace fovea::models::sizes
