#include "fovea/models/timm_weights.h"

namespace fovea::models {
namespace {

// Tags between blanks. Made by tools/golden/make_timm_tags.py --tags.
struct TimmRow {
  std::string_view preset, tags;
};

constexpr TimmRow kTimmWeights[] = {
    {"vit_tiny_patch16_224", "augreg_in21k_ft_in1k augreg_in21k"},
    {"vit_tiny_patch16_384", "augreg_in21k_ft_in1k"},
    {"vit_xsmall_patch16_clip_224", "tinyclip_yfcc15m"},
    {"vit_small_patch8_224", "dino"},
    {"vit_small_patch16_224", "augreg_in21k_ft_in1k augreg_in1k augreg_in21k dino"},
    {"vit_small_patch16_384", "augreg_in21k_ft_in1k augreg_in1k"},
    {"vit_small_patch32_224", "augreg_in21k_ft_in1k augreg_in21k"},
    {"vit_small_patch32_384", "augreg_in21k_ft_in1k"},
    {"vit_small_patch14_dinov2", "lvd142m"},
    {"vit_small_patch14_reg4_dinov2", "lvd142m"},
    {"vit_wee_patch16_reg1_gap_256", "sbb_in1k"},
    {"vit_little_patch16_reg1_gap_256", "sbb_in12k_ft_in1k sbb_in12k"},
    {"vit_little_patch16_reg4_gap_256", "sbb_in1k"},
    {"vit_medium_patch16_gap_240", "sw_in12k"},
    {"vit_medium_patch16_gap_256", "sw_in12k_ft_in1k"},
    {"vit_medium_patch16_gap_384", "sw_in12k_ft_in1k"},
    {"vit_medium_patch16_reg1_gap_256", "sbb_in1k"},
    {"vit_medium_patch16_reg4_gap_256", "sbb_in12k_ft_in1k sbb_in12k sbb_in1k"},
    {"vit_mediumd_patch16_reg4_gap_256",
     "sbb2_e200_in12k_ft_in1k sbb2_e200_in12k sbb_in12k sbb_in12k_ft_in1k"},
    {"vit_mediumd_patch16_reg4_gap_384", "sbb2_e200_in12k_ft_in1k"},
    {"vit_medium_patch16_clip_224", "tinyclip_yfcc15m"},
    {"vit_medium_patch32_clip_224", "tinyclip_laion400m"},
    {"vit_betwixt_patch16_reg1_gap_256", "sbb_in1k"},
    {"vit_betwixt_patch16_reg4_gap_256",
     "sbb2_e200_in12k_ft_in1k sbb2_e200_in12k sbb_in12k sbb_in12k_ft_in1k sbb_in1k"},
    {"vit_betwixt_patch16_reg4_gap_384", "sbb2_e200_in12k_ft_in1k"},
    {"vit_betwixt_patch32_clip_224", "tinyclip_laion400m"},
    {"vit_base_patch8_224", "augreg2_in21k_ft_in1k augreg_in21k augreg_in21k_ft_in1k dino"},
    {"vit_base_patch14_reg1_tipsv2", "webli"},
    {"vit_base_patch16_224",
     "augreg2_in21k_ft_in1k augreg_in1k augreg_in21k augreg_in21k_ft_in1k bamboo dino mae "
     "orig_in21k orig_in21k_ft_in1k sam_in1k"},
    {"vit_base_patch16_224_miil", "in21k in21k_ft_in1k"},
    {"vit_base_patch16_384", "augreg_in21k_ft_in1k augreg_in1k orig_in21k_ft_in1k"},
    {"vit_base_patch16_radio_v3", "c_radio"},
    {"vit_base_patch32_224", "augreg_in21k_ft_in1k augreg_in1k augreg_in21k orig_in21k sam_in1k"},
    {"vit_base_patch32_384", "augreg_in21k_ft_in1k augreg_in1k"},
    {"vit_base_patch14_dinov2", "lvd142m"},
    {"vit_base_patch14_reg4_dinov2", "lvd142m"},
    {"vit_base_patch16_siglip_224", "v2_webli webli"},
    {"vit_base_patch16_siglip_256", "v2_webli webli webli_i18n"},
    {"vit_base_patch16_siglip_384", "v2_webli webli"},
    {"vit_base_patch16_siglip_512", "v2_webli webli"},
    {"vit_base_patch32_siglip_256", "v2_webli"},
    {"vit_base_patch16_siglip_gap_224", "v2_webli webli"},
    {"vit_base_patch16_siglip_gap_256", "v2_webli webli webli_i18n"},
    {"vit_base_patch16_siglip_gap_384", "v2_webli webli"},
    {"vit_base_patch16_siglip_gap_512", "v2_webli webli"},
    {"vit_base_patch32_siglip_gap_256", "v2_webli"},
    {"vit_base_patch16_clip_224",
     "laion2b_ft_in12k_in1k datacompxl dfn2b laion2b laion2b_ft_in12k laion2b_ft_in1k "
     "laion400m_e32 metaclip_2pt5b metaclip_400m openai openai_ft_in12k openai_ft_in12k_in1k "
     "openai_ft_in1k"},
    {"vit_base_patch16_clip_384",
     "laion2b_ft_in12k_in1k laion2b_ft_in1k openai_ft_in12k_in1k openai_ft_in1k"},
    {"vit_base_patch16_clip_quickgelu_224", "metaclip_2pt5b metaclip_400m openai"},
    {"vit_base_patch16_plus_clip_240", "laion400m_e32"},
    {"vit_base_patch32_clip_224",
     "laion2b_ft_in12k_in1k datacompxl laion2b laion2b_ft_in1k laion400m_e32 metaclip_2pt5b "
     "metaclip_400m openai openai_ft_in1k"},
    {"vit_base_patch32_clip_256", "datacompxl"},
    {"vit_base_patch32_clip_384", "laion2b_ft_in12k_in1k openai_ft_in12k_in1k"},
    {"vit_base_patch32_clip_448", "laion2b_ft_in12k_in1k"},
    {"vit_base_patch32_clip_quickgelu_224", "laion400m_e32 metaclip_2pt5b metaclip_400m openai"},
    {"vit_large_patch14_reg1_tipsv2", "webli"},
    {"vit_large_patch16_224", "augreg_in21k_ft_in1k augreg_in21k mae orig_in21k"},
    {"vit_large_patch16_384", "augreg_in21k_ft_in1k"},
    {"vit_large_patch16_radio_v3", "c_radio"},
    {"vit_large_patch32_224", "orig_in21k"},
    {"vit_large_patch32_384", "orig_in21k_ft_in1k"},
    {"vit_large_patch14_dinov2", "lvd142m"},
    {"vit_large_patch14_reg4_dinov2", "lvd142m"},
    {"vit_large_patch16_siglip_256", "v2_webli webli"},
    {"vit_large_patch16_siglip_384", "v2_webli webli"},
    {"vit_large_patch16_siglip_512", "v2_webli"},
    {"vit_large_patch16_siglip_gap_256", "v2_webli webli"},
    {"vit_large_patch16_siglip_gap_384", "v2_webli webli"},
    {"vit_large_patch16_siglip_gap_512", "v2_webli"},
    {"vit_large_patch14_clip_224",
     "laion2b_ft_in12k_in1k apple_mclip2_dfndr2b datacompxl dfn2b dfn2b_s39b laion2b "
     "laion2b_ft_in12k laion2b_ft_in1k laion400m_e32 metaclip_2pt5b metaclip_400m openai "
     "openai_ft_in12k openai_ft_in12k_in1k openai_ft_in1k"},
    {"vit_large_patch14_clip_336",
     "laion2b_ft_in12k_in1k laion2b_ft_in1k openai openai_ft_in12k_in1k"},
    {"vit_large_patch14_clip_quickgelu_224", "dfn2b metaclip_2pt5b metaclip_400m openai"},
    {"vit_large_patch14_clip_quickgelu_336", "openai"},
    {"vit_huge_patch14_224", "orig_in21k mae"},
    {"vit_huge_patch16_radio_v3", "c_radio"},
    {"vit_huge_patch16_radio_v4", "c_radio"},
    {"vit_huge_patch14_clip_224",
     "laion2b_ft_in12k_in1k dfn5b laion2b laion2b_ft_in12k laion2b_ft_in1k metaclip2_worldwide "
     "metaclip_2pt5b metaclip_altogether"},
    {"vit_huge_patch14_clip_336", "laion2b_ft_in12k_in1k"},
    {"vit_huge_patch14_clip_378", "dfn5b metaclip2_worldwide"},
    {"vit_huge_patch14_clip_quickgelu_224", "dfn5b metaclip2_worldwide metaclip_2pt5b"},
    {"vit_huge_patch14_clip_quickgelu_378", "dfn5b"},
    {"vit_giant_patch14_reg1_tipsv2", "webli"},
    {"vit_giant_patch16_radio_v3", "c_radio"},
    {"vit_giant_patch14_dinov2", "lvd142m"},
    {"vit_giant_patch14_reg4_dinov2", "lvd142m"},
    {"vit_giantopt_patch16_siglip_256", "v2_webli"},
    {"vit_giantopt_patch16_siglip_384", "v2_webli"},
    {"vit_giantopt_patch16_siglip_gap_256", "v2_webli"},
    {"vit_giantopt_patch16_siglip_gap_384", "v2_webli"},
    {"vit_giant_patch14_clip_224", "laion2b"},
    {"vit_gigantic_patch14_clip_224", "laion2b metaclip2_worldwide metaclip_2pt5b"},
    {"vit_gigantic_patch14_clip_378", "metaclip2_worldwide"},
    {"vit_gigantic_patch14_clip_quickgelu_224", "metaclip_2pt5b"},
    {"vit_so150m2_patch16_reg1_gap_256", "sbb_e200_in12k_ft_in1k sbb_e200_in12k"},
    {"vit_so150m2_patch16_reg1_gap_384", "sbb_e200_in12k_ft_in1k"},
    {"vit_so150m2_patch16_reg1_gap_448", "sbb_e200_in12k_ft_in1k"},
    {"vit_so150m_patch16_reg4_gap_256", "sbb_e250_in12k_ft_in1k sbb_e250_in12k"},
    {"vit_so150m_patch16_reg4_gap_384", "sbb_e250_in12k_ft_in1k"},
    {"vit_so400m_patch14_reg1_tipsv2", "webli"},
    {"vit_so400m_patch16_radio_v4", "c_radio"},
    {"vit_so400m_patch14_siglip_224", "v2_webli webli"},
    {"vit_so400m_patch14_siglip_378", "v2_webli webli webli_ft_in1k"},
    {"vit_so400m_patch14_siglip_384", "webli"},
    {"vit_so400m_patch16_siglip_256", "v2_webli webli_i18n"},
    {"vit_so400m_patch16_siglip_384", "v2_webli"},
    {"vit_so400m_patch16_siglip_512", "v2_webli"},
    {"vit_so400m_patch14_siglip_gap_224",
     "v2_webli pali2_10b_pt pali2_3b_pt pali_mix pali_pt webli"},
    {"vit_so400m_patch14_siglip_gap_378", "v2_webli webli webli_ft_in1k"},
    {"vit_so400m_patch14_siglip_gap_384", "webli"},
    {"vit_so400m_patch14_siglip_gap_448",
     "pali_mix pali2_10b_docci pali2_10b_pt pali2_3b_docci pali2_3b_pt pali_ocrvqa pali_pt "
     "pali_refcoco_seg"},
    {"vit_so400m_patch14_siglip_gap_896",
     "pali_pt pali2_10b_pt pali2_3b_pt pali_ocrvqa pali_refcoco_seg"},
    {"vit_so400m_patch16_siglip_gap_256", "v2_webli webli_i18n"},
    {"vit_so400m_patch16_siglip_gap_384", "v2_webli"},
    {"vit_so400m_patch16_siglip_gap_512", "v2_webli"},
    {"vit_intern300m_patch14_448", "ogvl_dist ogvl_2pt5"},
    {"flexivit_base",
     "1200ep_in1k 1000ep_in21k 300ep_in1k 300ep_in21k 600ep_in1k patch16_in21k patch30_in21k"},
    {"flexivit_large", "1200ep_in1k 300ep_in1k 600ep_in1k"},
    {"flexivit_small", "1200ep_in1k 300ep_in1k 600ep_in1k"},
    {"deit_base_distilled_patch16_224", "fb_in1k"},
    {"deit_base_distilled_patch16_384", "fb_in1k"},
    {"deit_base_patch16_224", "fb_in1k"},
    {"deit_base_patch16_384", "fb_in1k"},
    {"deit_small_distilled_patch16_224", "fb_in1k"},
    {"deit_small_patch16_224", "fb_in1k"},
    {"deit_tiny_distilled_patch16_224", "fb_in1k"},
    {"deit_tiny_patch16_224", "fb_in1k"},
    {"deit3_base_patch16_224", "fb_in1k fb_in22k_ft_in1k"},
    {"deit3_base_patch16_384", "fb_in1k fb_in22k_ft_in1k"},
    {"deit3_huge_patch14_224", "fb_in1k fb_in22k_ft_in1k"},
    {"deit3_large_patch16_224", "fb_in1k fb_in22k_ft_in1k"},
    {"deit3_large_patch16_384", "fb_in1k fb_in22k_ft_in1k"},
    {"deit3_medium_patch16_224", "fb_in1k fb_in22k_ft_in1k"},
    {"deit3_small_patch16_224", "fb_in1k fb_in22k_ft_in1k"},
    {"deit3_small_patch16_384", "fb_in1k fb_in22k_ft_in1k"},
    {"eva_large_patch14_196", "in22k_ft_in22k_in1k in22k_ft_in1k"},
    {"eva_large_patch14_336", "in22k_ft_in22k_in1k in22k_ft_in1k"},
    {"beit3_base_patch16_224", "in22k_ft_in1k indomain_in22k_ft_in1k indomain_pt pt"},
    {"beit3_large_patch16_224", "in22k_ft_in1k indomain_in22k_ft_in1k indomain_pt pt"},
    {"test_vit", "r160_in1k"},
    {"test_vit2", "r160_in1k"},
    {"test_vit3", "r160_in1k"},
    {"vit_base_patch16_rpn_224", "sw_in1k"},
    {"vit_dwee_patch16_reg1_gap_256", "sbb_nadamuon_in1k sbb_in1k"},
    {"vit_pwee_patch16_reg1_gap_256", "sbb_in1k"},
    {"vit_dpwee_patch16_reg1_gap_256", "sbb_nadamuon_in1k sbb_in1k"},
    {"vit_dlittle_patch16_reg1_gap_256", "sbb_nadamuon_in1k"},
    {"aimv2_large_patch14_224", "apple_pt apple_pt_dist"},
    {"aimv2_huge_patch14_224", "apple_pt"},
    {"aimv2_1b_patch14_224", "apple_pt"},
    {"aimv2_3b_patch14_224", "apple_pt"},
    {"aimv2_large_patch14_336", "apple_pt apple_pt_dist"},
    {"aimv2_huge_patch14_336", "apple_pt"},
    {"aimv2_1b_patch14_336", "apple_pt"},
    {"aimv2_3b_patch14_336", "apple_pt"},
    {"aimv2_large_patch14_448", "apple_pt"},
    {"aimv2_huge_patch14_448", "apple_pt"},
    {"aimv2_1b_patch14_448", "apple_pt"},
    {"aimv2_3b_patch14_448", "apple_pt"},
};

std::string_view take_tag(std::string_view& tags) {
  const auto tag = tags.substr(0, tags.find(' '));
  tags.remove_prefix(std::min(tags.size(), tag.size() + 1));
  return tag;
}

// Weights of OpenAI's activation lie in the repository of the model with the plain one.
std::string repository_of(std::string_view preset, std::string_view tag) {
  constexpr std::string_view kActivation = "_quickgelu";
  std::string model(preset);
  if (const auto at = model.find(kActivation); at != model.npos)
    model.erase(at, kActivation.size());
  return "timm/" + model + "." + std::string(tag);
}

}  // namespace

std::vector<std::string> list_timm_weights() {
  std::vector<std::string> names;
  for (const auto& row : kTimmWeights) {
    for (auto tags = row.tags; !tags.empty();) {
      names.push_back(std::string(row.preset) + "." + std::string(take_tag(tags)));
    }
  }
  return names;
}

std::string timm_repository(std::string_view name) {
  const auto dot = name.find('.');
  const auto wanted = dot == name.npos ? std::string_view() : name.substr(dot + 1);
  for (const auto& row : kTimmWeights) {
    if (row.preset != name.substr(0, dot)) continue;
    auto tags = row.tags;
    if (dot == name.npos) return repository_of(row.preset, take_tag(tags));
    while (!tags.empty()) {
      if (take_tag(tags) == wanted) return repository_of(row.preset, wanted);
    }
  }
  return {};
}

}  // namespace fovea::models
