// The one table of model sizes: timm's names, structures and preprocessing.
#include <array>
#include <string_view>

#include "fovea/models/vit_config.h"

namespace fovea::models {
namespace {

struct Size {
  int64_t embed_dim, depth, num_heads;
  double mlp_ratio = 4.0;
};

constexpr Size kTest1 = {64, 6, 2, 3};
constexpr Size kTest2 = {64, 8, 2, 3};
constexpr Size kTest3 = {96, 9, 3, 2};
constexpr Size kTest4 = {96, 9, 3, 3};
constexpr Size kTiny = {192, 12, 3};
constexpr Size kXSmall = {256, 10, 4};
constexpr Size kWee = {256, 14, 4, 5};
constexpr Size kLittle = {320, 14, 5, 5.6};
constexpr Size kSmall = {384, 12, 6};
constexpr Size kSmall36 = {384, 36, 6};
constexpr Size kMedium = {512, 12, 8};
constexpr Size kMediumDeep = {512, 20, 8};
constexpr Size kBetwixt = {640, 12, 10};
constexpr Size kBase = {768, 12, 12};
constexpr Size kBase16Heads = {768, 12, 16};
constexpr Size kSo150m2 = {832, 21, 13, 34.0 / 13};
constexpr Size kSo150m = {896, 18, 14, 2.572};
constexpr Size kBasePlus = {896, 12, 14};
constexpr Size kLarge = {1024, 24, 16};
constexpr Size kSo400m = {1152, 27, 16, 3.7362};
constexpr Size kSo400mExact = {1152, 27, 16, 4304.0 / 1152};
constexpr Size kHuge = {1280, 32, 16};
constexpr Size kGiant = {1408, 40, 16, 48.0 / 11};
constexpr Size kBeit3Giant = {1408, 40, 16, 4.3637};
constexpr Size kGiantDinov2 = {1536, 40, 24, 2.66667 * 2};
constexpr Size kGiantRadio = {1536, 40, 24};
constexpr Size kGiantOpt = {1536, 40, 16};
constexpr Size kGigantic = {1664, 48, 16, 64.0 / 13};

// Mean and standard deviation that the weights were trained with.
struct Pixels {
  std::array<double, 3> mean, std;
};

constexpr Pixels kUnit = {{0.0, 0.0, 0.0}, {1.0, 1.0, 1.0}};
constexpr Pixels kHalf = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
constexpr Pixels kImageNet = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
constexpr Pixels kClip = {{0.48145466, 0.4578275, 0.40821073},
                          {0.26862954, 0.26130258, 0.27577711}};

// What sets a family apart from the plain ViT of Dosovitskiy et al. 2021.

void plain(VitConfig&) {}

void miil(VitConfig& config) {
  config.qkv_bias = false;
  config.input.interpolation = "bilinear";
}

void scaled(VitConfig& config) { config.init_values = 1e-5; }

void deit3(VitConfig& config) {
  config.no_embed_class = true;
  config.init_values = 1e-6;
}

void distilled(VitConfig& config) { config.distilled = true; }

void flexivit(VitConfig& config) {
  config.no_embed_class = true;
  config.pos_embed_interp = "bilinear";
}

void averaged(VitConfig& config) { config.global_pool = "avg"; }

void beit3(VitConfig& config) {
  averaged(config);
  config.scale_attn_norm = config.scale_mlp_norm = true;
  config.norm_eps = 1e-5;
}

void clip(VitConfig& config) {
  config.pre_norm = true;
  config.norm_eps = 1e-5;
}

void clip_quickgelu(VitConfig& config) {
  clip(config);
  config.act_layer = "quick_gelu";
}

void siglip(VitConfig& config) {
  config.class_token = false;
  config.global_pool = "map";
}

void siglip_tanh(VitConfig& config) {
  siglip(config);
  config.act_layer = "gelu_tanh";
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

void gap_scaled(VitConfig& config) {
  gap(config);
  config.qkv_bias = false;
  config.init_values = 1e-6;
}

void reg_gap(VitConfig& config, int64_t reg_tokens) {
  config.class_token = false;
  config.no_embed_class = true;
  config.global_pool = "avg";
  config.reg_tokens = reg_tokens;
}

void base_reg4_gap(VitConfig& config) { reg_gap(config, 4); }

void reg1_gap(VitConfig& config) {
  reg_gap(config, 1);
  config.init_values = 1e-5;
}

void reg4_gap(VitConfig& config) {
  reg_gap(config, 4);
  config.init_values = 1e-5;
}

void so150m(VitConfig& config) {
  gap(config);
  config.reg_tokens = 4;
}

void so150m_map(VitConfig& config) {
  siglip(config);
  config.reg_tokens = 4;
}

void so150m2(VitConfig& config) {
  reg1_gap(config);
  config.no_embed_class = false;
  config.qkv_bias = false;
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

void test_vit(VitConfig& config) { config.dynamic_img_size = true; }

void test_vit2(VitConfig& config) {
  reg1_gap(config);
  config.no_embed_class = false;
  config.dynamic_img_size = true;
}

void test_vit3(VitConfig& config) {
  siglip(config);
  config.reg_tokens = 1;
  config.pool_include_prefix = true;
  config.init_values = 1e-5;
}

void test_vit4(VitConfig& config) {
  test_vit2(config);
  config.norm_layer = "rms_norm";
}

struct Preset {
  std::string_view name;
  Size size;
  int64_t img_size, patch_size;
  void (*family)(VitConfig&);
  int64_t num_classes;
  double crop_pct;
  Pixels pixels;
};

constexpr Preset kPresets[] = {
    {"vit_tiny_patch16_224", kTiny, 224, 16, plain, 1000, 0.9, kHalf},
    {"vit_tiny_patch16_384", kTiny, 384, 16, plain, 1000, 1, kHalf},
    {"vit_xsmall_patch16_clip_224", kXSmall, 224, 16, clip, 512, 0.9, kClip},
    {"vit_small_patch8_224", kSmall, 224, 8, plain, 0, 0.9, kImageNet},
    {"vit_small_patch16_36x1_224", kSmall36, 224, 16, scaled, 1000, 0.9, kHalf},
    {"vit_small_patch16_224", kSmall, 224, 16, plain, 1000, 0.9, kHalf},
    {"vit_small_patch16_384", kSmall, 384, 16, plain, 1000, 1, kHalf},
    {"vit_small_patch32_224", kSmall, 224, 32, plain, 1000, 0.9, kHalf},
    {"vit_small_patch32_384", kSmall, 384, 32, plain, 1000, 1, kHalf},
    {"vit_small_patch14_dinov2", kSmall, 518, 14, dinov2, 0, 1, kImageNet},
    {"vit_small_patch14_reg4_dinov2", kSmall, 518, 14, dinov2_reg, 0, 1, kImageNet},
    {"vit_wee_patch16_reg1_gap_256", kWee, 256, 16, reg1_gap, 1000, 0.95, kHalf},
    {"vit_little_patch16_reg1_gap_256", kLittle, 256, 16, reg1_gap, 1000, 0.95, kHalf},
    {"vit_little_patch16_reg4_gap_256", kLittle, 256, 16, reg4_gap, 1000, 0.95, kHalf},
    {"vit_medium_patch16_gap_240", kMedium, 240, 16, gap_scaled, 11821, 0.95, kHalf},
    {"vit_medium_patch16_gap_256", kMedium, 256, 16, gap_scaled, 1000, 0.95, kHalf},
    {"vit_medium_patch16_gap_384", kMedium, 384, 16, gap_scaled, 1000, 0.95, kHalf},
    {"vit_medium_patch16_reg1_gap_256", kMedium, 256, 16, reg1_gap, 1000, 0.95, kHalf},
    {"vit_medium_patch16_reg4_gap_256", kMedium, 256, 16, reg4_gap, 1000, 0.95, kHalf},
    {"vit_mediumd_patch16_reg4_gap_256", kMediumDeep, 256, 16, reg4_gap, 1000, 0.95, kHalf},
    {"vit_mediumd_patch16_reg4_gap_384", kMediumDeep, 384, 16, reg4_gap, 1000, 1, kHalf},
    {"vit_medium_patch16_clip_224", kMedium, 224, 16, clip, 512, 0.9, kClip},
    {"vit_medium_patch32_clip_224", kMedium, 224, 32, clip, 512, 0.9, kClip},
    {"vit_betwixt_patch16_gap_256", kBetwixt, 256, 16, gap_scaled, 1000, 0.95, kHalf},
    {"vit_betwixt_patch16_reg1_gap_256", kBetwixt, 256, 16, reg1_gap, 1000, 0.95, kHalf},
    {"vit_betwixt_patch16_reg4_gap_256", kBetwixt, 256, 16, reg4_gap, 1000, 0.95, kHalf},
    {"vit_betwixt_patch16_reg4_gap_384", kBetwixt, 384, 16, reg4_gap, 1000, 1, kHalf},
    {"vit_betwixt_patch32_clip_224", kBetwixt, 224, 32, clip, 512, 0.9, kClip},
    {"vit_base_patch8_224", kBase, 224, 8, plain, 1000, 0.9, kHalf},
    {"vit_base_patch14_reg1_tipsv2", kBase, 448, 14, tipsv2, 0, 1, kUnit},
    {"vit_base_patch16_224", kBase, 224, 16, plain, 1000, 0.9, kHalf},
    {"vit_base_patch16_224_miil", kBase, 224, 16, miil, 11221, 0.875, kUnit},
    {"vit_base_patch16_384", kBase, 384, 16, plain, 1000, 1, kHalf},
    {"vit_base_patch16_plus_240", kBasePlus, 240, 16, scaled, 1000, 0.95, kHalf},
    {"vit_base_patch16_radio_v3", kBase, 512, 16, radio_v3, 0, 1, kClip},
    {"vit_base_patch32_224", kBase, 224, 32, plain, 1000, 0.9, kHalf},
    {"vit_base_patch32_384", kBase, 384, 32, plain, 1000, 1, kHalf},
    {"vit_base_patch32_plus_256", kBasePlus, 256, 32, scaled, 1000, 0.95, kHalf},
    {"vit_base_patch14_dinov2", kBase, 518, 14, dinov2, 0, 1, kImageNet},
    {"vit_base_patch14_reg4_dinov2", kBase, 518, 14, dinov2_reg, 0, 1, kImageNet},
    {"vit_base_patch16_gap_224", kBase16Heads, 224, 16, gap, 1000, 0.9, kHalf},
    {"vit_base_patch16_reg4_gap_256", kBase, 256, 16, base_reg4_gap, 1000, 0.9, kHalf},
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
    {"vit_large_patch14_224", kLarge, 224, 14, plain, 1000, 0.9, kHalf},
    {"vit_large_patch14_reg1_tipsv2", kLarge, 448, 14, tipsv2, 0, 1, kUnit},
    {"vit_large_patch16_224", kLarge, 224, 16, plain, 1000, 0.9, kHalf},
    {"vit_large_patch16_384", kLarge, 384, 16, plain, 1000, 1, kHalf},
    {"vit_large_patch16_radio_v3", kLarge, 512, 16, radio_v3, 0, 1, kClip},
    {"vit_large_patch32_224", kLarge, 224, 32, plain, 0, 0.9, kHalf},
    {"vit_large_patch32_384", kLarge, 384, 32, plain, 1000, 1, kHalf},
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
    {"vit_huge_patch14_224", kHuge, 224, 14, plain, 0, 0.9, kHalf},
    {"vit_huge_patch16_radio_v3", kHuge, 512, 16, radio_v3_large, 0, 1, kClip},
    {"vit_huge_patch16_radio_v4", kHuge, 512, 16, radio_v4, 0, 1, kClip},
    {"vit_huge_patch14_gap_224", kHuge, 224, 14, gap, 0, 0.9, kImageNet},
    {"vit_huge_patch16_gap_448", kHuge, 448, 16, gap, 0, 1, kImageNet},
    {"vit_huge_patch14_clip_224", kHuge, 224, 14, clip, 1000, 1, kClip},
    {"vit_huge_patch14_clip_336", kHuge, 336, 14, clip, 1000, 1, kClip},
    {"vit_huge_patch14_clip_378", kHuge, 378, 14, clip, 1024, 1, kClip},
    {"vit_huge_patch14_clip_quickgelu_224", kHuge, 224, 14, clip_quickgelu, 1024, 1, kClip},
    {"vit_huge_patch14_clip_quickgelu_378", kHuge, 378, 14, clip_quickgelu, 1024, 1, kClip},
    {"vit_giant_patch14_224", kGiant, 224, 14, plain, 1000, 0.9, kHalf},
    {"vit_giant_patch14_reg1_tipsv2", kGiantDinov2, 448, 14, tipsv2_giant, 0, 1, kUnit},
    {"vit_giant_patch16_radio_v3", kGiantRadio, 512, 16, radio_v3_large, 0, 1, kClip},
    {"vit_giant_patch14_dinov2", kGiantDinov2, 518, 14, dinov2_giant, 0, 1, kImageNet},
    {"vit_giant_patch14_reg4_dinov2", kGiantDinov2, 518, 14, dinov2_reg_giant, 0, 1, kImageNet},
    {"vit_giant_patch16_gap_224", kGiant, 224, 16, gap, 0, 0.9, kImageNet},
    {"vit_giantopt_patch16_siglip_256", kGiantOpt, 256, 16, siglip_tanh, 0, 0.9, kHalf},
    {"vit_giantopt_patch16_siglip_384", kGiantOpt, 384, 16, siglip_tanh, 0, 0.9, kHalf},
    {"vit_giantopt_patch16_siglip_gap_256", kGiantOpt, 256, 16, gap_tanh, 0, 0.9, kHalf},
    {"vit_giantopt_patch16_siglip_gap_384", kGiantOpt, 384, 16, gap_tanh, 0, 0.9, kHalf},
    {"vit_giant_patch14_clip_224", kGiant, 224, 14, clip, 1024, 1, kClip},
    {"vit_gigantic_patch14_224", kGigantic, 224, 14, plain, 1000, 0.9, kHalf},
    {"vit_gigantic_patch14_clip_224", kGigantic, 224, 14, clip, 1280, 1, kClip},
    {"vit_gigantic_patch14_clip_378", kGigantic, 378, 14, clip, 1280, 1, kClip},
    {"vit_gigantic_patch14_clip_quickgelu_224", kGigantic, 224, 14, clip_quickgelu, 1280, 1, kClip},
    {"vit_so150m_patch16_reg4_map_256", kSo150m, 256, 16, so150m_map, 1000, 0.9, kHalf},
    {"vit_so150m2_patch16_reg1_gap_256", kSo150m2, 256, 16, so150m2, 1000, 1, kHalf},
    {"vit_so150m2_patch16_reg1_gap_384", kSo150m2, 384, 16, so150m2, 1000, 1, kHalf},
    {"vit_so150m2_patch16_reg1_gap_448", kSo150m2, 448, 16, so150m2, 1000, 1, kHalf},
    {"vit_so150m_patch16_reg4_gap_256", kSo150m, 256, 16, so150m, 1000, 0.95, kHalf},
    {"vit_so150m_patch16_reg4_gap_384", kSo150m, 384, 16, so150m, 1000, 1, kHalf},
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
    {"flexivit_base", kBase, 240, 16, flexivit, 1000, 0.95, kHalf},
    {"flexivit_large", kLarge, 240, 16, flexivit, 1000, 0.95, kHalf},
    {"flexivit_small", kSmall, 240, 16, flexivit, 1000, 0.95, kHalf},
    {"deit_base_distilled_patch16_224", kBase, 224, 16, distilled, 1000, 0.9, kImageNet},
    {"deit_base_distilled_patch16_384", kBase, 384, 16, distilled, 1000, 1, kImageNet},
    {"deit_base_patch16_224", kBase, 224, 16, plain, 1000, 0.9, kImageNet},
    {"deit_base_patch16_384", kBase, 384, 16, plain, 1000, 1, kImageNet},
    {"deit_small_distilled_patch16_224", kSmall, 224, 16, distilled, 1000, 0.9, kImageNet},
    {"deit_small_patch16_224", kSmall, 224, 16, plain, 1000, 0.9, kImageNet},
    {"deit_tiny_distilled_patch16_224", kTiny, 224, 16, distilled, 1000, 0.9, kImageNet},
    {"deit_tiny_patch16_224", kTiny, 224, 16, plain, 1000, 0.9, kImageNet},
    {"deit3_base_patch16_224", kBase, 224, 16, deit3, 1000, 0.9, kImageNet},
    {"deit3_base_patch16_384", kBase, 384, 16, deit3, 1000, 1, kImageNet},
    {"deit3_huge_patch14_224", kHuge, 224, 14, deit3, 1000, 0.9, kImageNet},
    {"deit3_large_patch16_224", kLarge, 224, 16, deit3, 1000, 0.9, kImageNet},
    {"deit3_large_patch16_384", kLarge, 384, 16, deit3, 1000, 1, kImageNet},
    {"deit3_medium_patch16_224", kMedium, 224, 16, deit3, 1000, 0.9, kImageNet},
    {"deit3_small_patch16_224", kSmall, 224, 16, deit3, 1000, 0.9, kImageNet},
    {"deit3_small_patch16_384", kSmall, 384, 16, deit3, 1000, 1, kImageNet},
    {"eva_large_patch14_196", kLarge, 196, 14, averaged, 1000, 1, kClip},
    {"eva_large_patch14_336", kLarge, 336, 14, averaged, 1000, 1, kClip},
    {"beit3_base_patch16_224", kBase, 224, 16, beit3, 1000, 1, kImageNet},
    {"beit3_giant_patch14_224", kBeit3Giant, 224, 14, beit3, 1000, 1, kImageNet},
    {"beit3_giant_patch14_336", kBeit3Giant, 336, 14, beit3, 1000, 1, kImageNet},
    {"beit3_large_patch16_224", kLarge, 224, 16, beit3, 1000, 1, kImageNet},
    {"test_vit", kTest1, 160, 16, test_vit, 1000, 0.95, kHalf},
    {"test_vit2", kTest2, 160, 16, test_vit2, 1000, 0.95, kHalf},
    {"test_vit3", kTest3, 160, 16, test_vit3, 1000, 0.95, kHalf},
    {"test_vit4", kTest4, 160, 16, test_vit4, 1000, 0.95, kHalf},
};

}  // namespace

bool VitConfig::apply_preset(const std::string& name) {
  for (const auto& row : kPresets) {
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
  return false;
}

std::vector<std::string> VitConfig::preset_names() {
  std::vector<std::string> names;
  for (const auto& row : kPresets) names.emplace_back(row.name);
  return names;
}

}  // namespace fovea::models
