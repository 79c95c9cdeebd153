#include "fovea/recipe_import/timm_tags.h"

#include <cstdint>
#include <string_view>
#include <utility>

namespace fovea::recipe_import {
namespace {

enum class Pixels { kSame, kImageNet, kHalf, kClip };

// Where it is not as the model has it: crop_pct 0 and num_classes -1 are the model's. Made by
// tools/golden/make_timm_tags.py --rows. An empty tag: timm's first one, whose crop the table of
// models does not have.
struct Row {
  std::string_view model, tag;
  Pixels pixels;
  double crop_pct;
  bool squash;
  int64_t num_classes;
};

constexpr Row kRows[] = {
    {"vit_tiny_patch16_224", "augreg_in21k", Pixels::kSame, 0, false, 21843},
    {"vit_small_patch16_224", "augreg_in21k", Pixels::kSame, 0, false, 21843},
    {"vit_small_patch16_224", "dino", Pixels::kImageNet, 0, false, 0},
    {"vit_small_patch32_224", "augreg_in21k", Pixels::kSame, 0, false, 21843},
    {"vit_little_patch16_reg1_gap_256", "sbb_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_medium_patch16_gap_384", "", Pixels::kSame, 0, true, -1},
    {"vit_medium_patch16_gap_384", "sw_in12k_ft_in1k", Pixels::kSame, 0, true, -1},
    {"vit_medium_patch16_reg4_gap_256", "sbb_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_mediumd_patch16_reg4_gap_256", "sbb2_e200_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_mediumd_patch16_reg4_gap_256", "sbb_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_betwixt_patch16_reg4_gap_256", "sbb2_e200_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_betwixt_patch16_reg4_gap_256", "sbb_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_base_patch8_224", "augreg_in21k", Pixels::kSame, 0, false, 21843},
    {"vit_base_patch8_224", "dino", Pixels::kImageNet, 0, false, 0},
    {"vit_base_patch16_224", "augreg_in21k", Pixels::kSame, 0, false, 21843},
    {"vit_base_patch16_224", "bamboo", Pixels::kClip, 1, false, 115217},
    {"vit_base_patch16_224", "dino", Pixels::kImageNet, 0, false, 0},
    {"vit_base_patch16_224", "mae", Pixels::kImageNet, 0, false, 0},
    {"vit_base_patch16_224", "orig_in21k", Pixels::kSame, 0, false, 0},
    {"vit_base_patch16_224_miil", "in21k_ft_in1k", Pixels::kSame, 0, false, 1000},
    {"vit_base_patch32_224", "augreg_in21k", Pixels::kSame, 0, false, 21843},
    {"vit_base_patch32_224", "orig_in21k", Pixels::kSame, 0, false, 0},
    {"vit_base_patch16_clip_224", "datacompxl", Pixels::kSame, 1, false, 512},
    {"vit_base_patch16_clip_224", "dfn2b", Pixels::kSame, 1, false, 512},
    {"vit_base_patch16_clip_224", "laion2b", Pixels::kSame, 1, false, 512},
    {"vit_base_patch16_clip_224", "laion2b_ft_in12k", Pixels::kSame, 0.9, false, 11821},
    {"vit_base_patch16_clip_224", "laion2b_ft_in1k", Pixels::kSame, 1, false, -1},
    {"vit_base_patch16_clip_224", "laion400m_e32", Pixels::kSame, 1, false, 512},
    {"vit_base_patch16_clip_224", "metaclip_2pt5b", Pixels::kSame, 1, false, 512},
    {"vit_base_patch16_clip_224", "metaclip_400m", Pixels::kSame, 1, false, 512},
    {"vit_base_patch16_clip_224", "openai", Pixels::kSame, 0.9, false, 512},
    {"vit_base_patch16_clip_224", "openai_ft_in12k", Pixels::kSame, 0.9, false, 11821},
    {"vit_base_patch16_clip_224", "openai_ft_in1k", Pixels::kSame, 0.9, false, -1},
    {"vit_base_patch16_clip_384", "", Pixels::kSame, 0, true, -1},
    {"vit_base_patch16_clip_384", "laion2b_ft_in12k_in1k", Pixels::kSame, 0, true, -1},
    {"vit_base_patch16_clip_384", "laion2b_ft_in1k", Pixels::kSame, 0, true, -1},
    {"vit_base_patch16_clip_384", "openai_ft_in12k_in1k", Pixels::kSame, 0.95, true, -1},
    {"vit_base_patch16_clip_384", "openai_ft_in1k", Pixels::kSame, 0, true, -1},
    {"vit_base_patch16_clip_quickgelu_224", "openai", Pixels::kSame, 0.9, false, -1},
    {"vit_base_patch32_clip_224", "datacompxl", Pixels::kSame, 1, false, 512},
    {"vit_base_patch32_clip_224", "laion2b", Pixels::kSame, 0, false, 512},
    {"vit_base_patch32_clip_224", "laion400m_e32", Pixels::kSame, 0, false, 512},
    {"vit_base_patch32_clip_224", "metaclip_2pt5b", Pixels::kSame, 1, false, 512},
    {"vit_base_patch32_clip_224", "metaclip_400m", Pixels::kSame, 1, false, 512},
    {"vit_base_patch32_clip_224", "openai", Pixels::kSame, 0, false, 512},
    {"vit_base_patch32_clip_384", "openai_ft_in12k_in1k", Pixels::kSame, 0.95, true, -1},
    {"vit_base_patch32_clip_quickgelu_224", "metaclip_2pt5b", Pixels::kSame, 1, false, -1},
    {"vit_base_patch32_clip_quickgelu_224", "metaclip_400m", Pixels::kSame, 1, false, -1},
    {"vit_large_patch16_224", "augreg_in21k", Pixels::kSame, 0, false, 21843},
    {"vit_large_patch16_224", "mae", Pixels::kImageNet, 0, false, 0},
    {"vit_large_patch16_224", "orig_in21k", Pixels::kSame, 0, false, 0},
    {"vit_large_patch14_clip_224", "apple_mclip2_dfndr2b", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_224", "datacompxl", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_224", "dfn2b", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_224", "dfn2b_s39b", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_224", "laion2b", Pixels::kSame, 0, false, 768},
    {"vit_large_patch14_clip_224", "laion2b_ft_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_large_patch14_clip_224", "laion400m_e32", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_224", "metaclip_2pt5b", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_224", "metaclip_400m", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_224", "openai", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_224", "openai_ft_in12k", Pixels::kClip, 0, false, 11821},
    {"vit_large_patch14_clip_224", "openai_ft_in12k_in1k", Pixels::kClip, 0, false, -1},
    {"vit_large_patch14_clip_224", "openai_ft_in1k", Pixels::kClip, 0, false, -1},
    {"vit_large_patch14_clip_336", "", Pixels::kSame, 0, true, -1},
    {"vit_large_patch14_clip_336", "laion2b_ft_in12k_in1k", Pixels::kSame, 0, true, -1},
    {"vit_large_patch14_clip_336", "laion2b_ft_in1k", Pixels::kSame, 0, true, -1},
    {"vit_large_patch14_clip_336", "openai", Pixels::kClip, 0, false, 768},
    {"vit_large_patch14_clip_336", "openai_ft_in12k_in1k", Pixels::kClip, 0, true, -1},
    {"vit_huge_patch14_224", "mae", Pixels::kImageNet, 0, false, -1},
    {"vit_huge_patch14_224", "untrained", Pixels::kSame, 0, false, 1000},
    {"vit_huge_patch14_clip_224", "dfn5b", Pixels::kSame, 0, false, 1024},
    {"vit_huge_patch14_clip_224", "laion2b", Pixels::kSame, 0, false, 1024},
    {"vit_huge_patch14_clip_224", "laion2b_ft_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_huge_patch14_clip_224", "metaclip2_worldwide", Pixels::kSame, 0, false, 1024},
    {"vit_huge_patch14_clip_224", "metaclip_2pt5b", Pixels::kSame, 0, false, 1024},
    {"vit_huge_patch14_clip_224", "metaclip_altogether", Pixels::kSame, 0, false, 1024},
    {"vit_huge_patch14_clip_336", "", Pixels::kSame, 0, true, -1},
    {"vit_huge_patch14_clip_336", "laion2b_ft_in12k_in1k", Pixels::kSame, 0, true, -1},
    {"vit_huge_patch14_clip_336", "laion2b_ft_in1k", Pixels::kSame, 0, true, -1},
    {"vit_huge_patch14_clip_378", "metaclip2_worldwide", Pixels::kSame, 0, true, -1},
    {"vit_gigantic_patch14_clip_378", "", Pixels::kSame, 0, true, -1},
    {"vit_gigantic_patch14_clip_378", "metaclip2_worldwide", Pixels::kSame, 0, true, -1},
    {"vit_so150m2_patch16_reg1_gap_256", "sbb_e200_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_so150m2_patch16_reg1_gap_448", "", Pixels::kSame, 0, true, -1},
    {"vit_so150m2_patch16_reg1_gap_448", "sbb_e200_in12k_ft_in1k", Pixels::kSame, 0, true, -1},
    {"vit_so150m_patch16_reg4_gap_256", "sbb_e250_in12k", Pixels::kSame, 0, false, 11821},
    {"vit_so400m_patch14_siglip_378", "webli_ft_in1k", Pixels::kSame, 1, true, 1000},
    {"vit_so400m_patch14_siglip_gap_378", "webli", Pixels::kSame, 1, false, -1},
    {"vit_so400m_patch14_siglip_gap_378", "webli_ft_in1k", Pixels::kSame, 1, true, 1000},
    {"flexivit_base", "1000ep_in21k", Pixels::kSame, 0, false, 21843},
    {"flexivit_base", "300ep_in21k", Pixels::kSame, 0, false, 21843},
    {"flexivit_base", "patch16_in21k", Pixels::kSame, 0, false, 21843},
    {"flexivit_base", "patch30_in21k", Pixels::kSame, 0, false, 21843},
    {"deit3_base_patch16_224", "fb_in22k_ft_in1k", Pixels::kSame, 1, false, -1},
    {"deit3_huge_patch14_224", "fb_in22k_ft_in1k", Pixels::kSame, 1, false, -1},
    {"deit3_large_patch16_224", "fb_in22k_ft_in1k", Pixels::kSame, 1, false, -1},
    {"deit3_medium_patch16_224", "fb_in22k_ft_in1k", Pixels::kSame, 1, false, -1},
    {"deit3_small_patch16_224", "fb_in22k_ft_in1k", Pixels::kSame, 1, false, -1},
    {"eva_large_patch14_336", "", Pixels::kSame, 0, true, -1},
    {"eva_large_patch14_336", "in22k_ft_in1k", Pixels::kSame, 0, true, -1},
    {"eva_large_patch14_336", "in22k_ft_in22k_in1k", Pixels::kSame, 0, true, -1},
    {"beit3_base_patch16_224", "indomain_pt", Pixels::kSame, 0, false, 0},
    {"beit3_base_patch16_224", "pt", Pixels::kSame, 0, false, 0},
    {"beit3_large_patch16_224", "indomain_pt", Pixels::kSame, 0, false, 0},
    {"beit3_large_patch16_224", "pt", Pixels::kSame, 0, false, 0},
};

}  // namespace

ModelInput input_of_tag(const std::string& name, ModelInput plain) {
  const auto dot = name.find('.');
  const auto model = name.substr(0, dot);
  const auto tag = dot == std::string::npos ? "" : name.substr(dot + 1);
  for (const auto& row : kRows) {
    if (row.model != model || row.tag != tag) continue;
    if (row.pixels == Pixels::kImageNet) {
      plain.mean = {0.485, 0.456, 0.406};
      plain.std = {0.229, 0.224, 0.225};
    } else if (row.pixels == Pixels::kHalf) {
      plain.mean = plain.std = {0.5, 0.5, 0.5};
    } else if (row.pixels == Pixels::kClip) {
      plain.mean = {0.48145466, 0.4578275, 0.40821073};
      plain.std = {0.26862954, 0.26130258, 0.27577711};
    }
    if (row.crop_pct > 0) plain.crop_pct = row.crop_pct;
    if (row.squash) plain.crop_mode = "squash";
    if (row.num_classes >= 0) plain.num_classes = row.num_classes;
  }
  return plain;
}

}  // namespace fovea::recipe_import
