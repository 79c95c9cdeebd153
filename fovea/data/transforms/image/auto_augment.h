// RandAugment, AutoAugment, 3-Augment and AugMix from timm's strings (timm 1.0.31,
// auto_augment.py).
//   rand-m9-mstd0.5-inc1     Cubuk et al., "RandAugment", 2019
//   original, originalr      Cubuk et al., "AutoAugment", 2018, the policy for ImageNet;
//   v0, v0r                  of the EfficientNet code; -mstd0.5 as for rand
//   3a                       Touvron et al., "DeiT III", 2022
//   augmix-m3-w3             Hendrycks et al., "AugMix", 2019
#pragma once

#include <span>

#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct AutoAugmentConfig {
  static constexpr std::string_view kName = "auto_augment";
  std::string policy = "rand-m9-mstd0.5-inc1";
  std::vector<int64_t> fill = {128};
  std::string interpolation = "random";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field(
        "policy", self.policy,
        "rand-m9-mstd0.5-inc1 and the like, original, originalr, v0, v0r, 3a, or augmix-m3; with "
        "timm's options");
    v.field("fill", self.fill, "value of pixels from outside; one number, or three",
            {.one_is_list = true});
    v.field("interpolation", self.interpolation, "how geometry is resampled",
            {.choices = {"nearest", "bilinear", "bicubic", "random"}});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return true; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

// Throws ConfigError naming what it does not know.
AugmentPolicy parse_augment_policy(std::string_view text);

// One operation with timm's draws: whether, how strong, which direction, which interpolation.
ImageView apply_augment_op(const AugmentOp& op, const AugmentPolicy& policy,
                           const AugmentHparams& hparams, const ImageView& in, RandomStream& random,
                           TransformScratch& scratch);

// The choices of one image, as indices into sub_policies[0]: kRand.
void draw_augment_choices(const AugmentPolicy& policy, RandomStream& random,
                          std::span<int64_t> choices);

// The result looks at `in`'s pixels or at a buffer of `scratch`. AugMix mixes images of several
// geometries: masks stay where they are in the original.
ImageView apply_augment_policy(const AugmentPolicy& policy, const AugmentHparams& hparams,
                               const ImageView& in, RandomStream& random,
                               TransformScratch& scratch);

}  // namespace fovea::data
