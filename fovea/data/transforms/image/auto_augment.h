// RandAugment, AutoAugment, 3-Augment and AugMix from timm's strings (timm 1.0.31,
// auto_augment.py), and torchvision's RandAugment.
//   rand-m9-mstd0.5-inc1     Cubuk et al., "RandAugment", 2019
//   original, originalr      Cubuk et al., "AutoAugment", 2018, the policy for ImageNet; v0, v0r:
//   of
//                            the EfficientNet code; -mstd0.5 as for rand
//   3a                       Touvron et al., "DeiT III", 2022
//   augmix-m3-w3             Hendrycks et al., "AugMix", 2019
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/geometry.h"

namespace fovea::data {

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

// torchvision 0.26's RandAugment: an operation's magnitude at bin `magnitude` of `num_bins`, and
// whether its sign is drawn. index: of kTorchvisionOps.
struct TorchvisionMagnitude {
  AugmentAction action;
  double value;
  bool is_signed;
};
constexpr int64_t kNumTorchvisionOps = 14;
TorchvisionMagnitude torchvision_magnitude(int64_t index, int64_t magnitude, int64_t num_bins,
                                           ImageSize size);
// The same with the drawn sign, as the argument of run_augment_action.
double torchvision_arg(const TorchvisionMagnitude& magnitude, bool is_negated);

}  // namespace fovea::data
