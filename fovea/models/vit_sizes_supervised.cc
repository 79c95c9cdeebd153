// Sizes of ViTs that were trained with labels: timm's names, structures and preprocessing.
#include "fovea/models/vit_size_table.h"

namespace fovea::models::sizes {
namespace {

constexpr Size kTest1 = {64, 6, 2, 3};
constexpr Size kTest2 = {64, 8, 2, 3};
constexpr Size kTest3 = {96, 9, 3, 2};
constexpr Size kTest4 = {96, 9, 3, 3};
constexpr Size kTiny = {192, 12, 3};
constexpr Size kWee = {256, 14, 4, 5};
constexpr Size kLittle = {320, 14, 5, 5.6};
constexpr Size kSmall36 = {384, 36, 6};
constexpr Size kMediumDeep = {512, 20, 8};
constexpr Size kBase16Heads = {768, 12, 16};
constexpr Size kSo150m2 = {832, 21, 13, 34.0 / 13};
constexpr Size kSo150m = {896, 18, 14, 2.572};
constexpr Size kBeit3Giant = {1408, 40, 16, 4.3637};
constexpr Size kWee16 = {256, 16, 4, 5};
constexpr Size kSmall18 = {384, 18, 6};
constexpr Size kBase18 = {768, 18, 12};

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

void res_post_norm(VitConfig& config) {
  averaged(config);
  config.class_token = false;
  config.qkv_bias = false;
  config.block_layer = "res_post_norm";
  config.init_values = 1e-5;
}

void two_in_parallel(VitConfig& config) {
  scaled(config);
  config.block_layer = "parallel_things";
}

// As ViT-22B (Dehghani et al. 2023).
void xp(VitConfig& config) {
  config.pre_norm = true;
  config.no_embed_class = true;
  config.norm_layer = "rms_norm";
  config.block_layer = "parallel_scaling";
  config.qkv_bias = false;
  config.qk_norm = true;
}

void parallel_reg1_gap(VitConfig& config) {
  reg1_gap(config);
  config.block_layer = "parallel_scaling";
}

void diff_reg1_gap(VitConfig& config) {
  reg1_gap(config);
  config.attn_layer = "diff";
}

void diff_parallel_reg1_gap(VitConfig& config) {
  parallel_reg1_gap(config);
  config.attn_layer = "diff";
}

constexpr Preset kSupervised[] = {
    {"vit_tiny_patch16_224", kTiny, 224, 16, plain, 1000, 0.9, kHalf},
    {"vit_tiny_patch16_384", kTiny, 384, 16, plain, 1000, 1, kHalf},
    {"vit_small_patch8_224", kSmall, 224, 8, plain, 0, 0.9, kImageNet},
    {"vit_small_patch16_36x1_224", kSmall36, 224, 16, scaled, 1000, 0.9, kHalf},
    {"vit_small_patch16_224", kSmall, 224, 16, plain, 1000, 0.9, kHalf},
    {"vit_small_patch16_384", kSmall, 384, 16, plain, 1000, 1, kHalf},
    {"vit_small_patch32_224", kSmall, 224, 32, plain, 1000, 0.9, kHalf},
    {"vit_small_patch32_384", kSmall, 384, 32, plain, 1000, 1, kHalf},
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
    {"vit_betwixt_patch16_gap_256", kBetwixt, 256, 16, gap_scaled, 1000, 0.95, kHalf},
    {"vit_betwixt_patch16_reg1_gap_256", kBetwixt, 256, 16, reg1_gap, 1000, 0.95, kHalf},
    {"vit_betwixt_patch16_reg4_gap_256", kBetwixt, 256, 16, reg4_gap, 1000, 0.95, kHalf},
    {"vit_betwixt_patch16_reg4_gap_384", kBetwixt, 384, 16, reg4_gap, 1000, 1, kHalf},
    {"vit_base_patch8_224", kBase, 224, 8, plain, 1000, 0.9, kHalf},
    {"vit_base_patch16_224", kBase, 224, 16, plain, 1000, 0.9, kHalf},
    {"vit_base_patch16_224_miil", kBase, 224, 16, miil, 11221, 0.875, kUnit},
    {"vit_base_patch16_384", kBase, 384, 16, plain, 1000, 1, kHalf},
    {"vit_base_patch16_plus_240", kBasePlus, 240, 16, scaled, 1000, 0.95, kHalf},
    {"vit_base_patch32_224", kBase, 224, 32, plain, 1000, 0.9, kHalf},
    {"vit_base_patch32_384", kBase, 384, 32, plain, 1000, 1, kHalf},
    {"vit_base_patch32_plus_256", kBasePlus, 256, 32, scaled, 1000, 0.95, kHalf},
    {"vit_base_patch16_gap_224", kBase16Heads, 224, 16, gap, 1000, 0.9, kHalf},
    {"vit_base_patch16_reg4_gap_256", kBase, 256, 16, base_reg4_gap, 1000, 0.9, kHalf},
    {"vit_large_patch14_224", kLarge, 224, 14, plain, 1000, 0.9, kHalf},
    {"vit_large_patch16_224", kLarge, 224, 16, plain, 1000, 0.9, kHalf},
    {"vit_large_patch16_384", kLarge, 384, 16, plain, 1000, 1, kHalf},
    {"vit_large_patch32_224", kLarge, 224, 32, plain, 0, 0.9, kHalf},
    {"vit_large_patch32_384", kLarge, 384, 32, plain, 1000, 1, kHalf},
    {"vit_huge_patch14_224", kHuge, 224, 14, plain, 0, 0.9, kHalf},
    {"vit_huge_patch14_gap_224", kHuge, 224, 14, gap, 0, 0.9, kImageNet},
    {"vit_huge_patch16_gap_448", kHuge, 448, 16, gap, 0, 1, kImageNet},
    {"vit_giant_patch14_224", kGiant, 224, 14, plain, 1000, 0.9, kHalf},
    {"vit_giant_patch16_gap_224", kGiant, 224, 16, gap, 0, 0.9, kImageNet},
    {"vit_gigantic_patch14_224", kGigantic, 224, 14, plain, 1000, 0.9, kHalf},
    {"vit_so150m_patch16_reg4_map_256", kSo150m, 256, 16, so150m_map, 1000, 0.9, kHalf},
    {"vit_so150m2_patch16_reg1_gap_256", kSo150m2, 256, 16, so150m2, 1000, 1, kHalf},
    {"vit_so150m2_patch16_reg1_gap_384", kSo150m2, 384, 16, so150m2, 1000, 1, kHalf},
    {"vit_so150m2_patch16_reg1_gap_448", kSo150m2, 448, 16, so150m2, 1000, 1, kHalf},
    {"vit_so150m_patch16_reg4_gap_256", kSo150m, 256, 16, so150m, 1000, 0.95, kHalf},
    {"vit_so150m_patch16_reg4_gap_384", kSo150m, 384, 16, so150m, 1000, 1, kHalf},
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
    {"vit_base_patch16_rpn_224", kBase, 224, 16, res_post_norm, 1000, 0.9, kHalf},
    {"vit_small_patch16_18x2_224", kSmall18, 224, 16, two_in_parallel, 1000, 0.9, kHalf},
    {"vit_base_patch16_18x2_224", kBase18, 224, 16, two_in_parallel, 1000, 0.9, kHalf},
    {"vit_base_patch16_xp_224", kBase, 224, 16, xp, 1000, 0.9, kHalf},
    {"vit_large_patch14_xp_224", kLarge, 224, 14, xp, 1000, 0.9, kHalf},
    {"vit_huge_patch14_xp_224", kHuge, 224, 14, xp, 1000, 0.9, kHalf},
    {"vit_dwee_patch16_reg1_gap_256", kWee, 256, 16, diff_reg1_gap, 1000, 0.95, kHalf},
    {"vit_pwee_patch16_reg1_gap_256", kWee16, 256, 16, parallel_reg1_gap, 1000, 0.95, kHalf},
    {"vit_dpwee_patch16_reg1_gap_256", kWee16, 256, 16, diff_parallel_reg1_gap, 1000, 0.95, kHalf},
    {"vit_dlittle_patch16_reg1_gap_256", kLittle, 256, 16, diff_reg1_gap, 1000, 0.95, kHalf},
};

}  // namespace

std::span<const Preset> supervised_presets() { return kSupervised; }

}  // namespace fovea::models::sizes
