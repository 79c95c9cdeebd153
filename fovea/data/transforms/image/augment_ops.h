// The operations that RandAugment, AutoAugment and their relatives choose from, by timm's names:
// what a magnitude means, and what is done to the pixels.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/affine.h"
#include "fovea/data/transforms/image/blur.h"
#include "fovea/data/transforms/sample_geometry.h"

namespace fovea::data {

struct TransformScratch;

// Magnitudes count from 0 to 10.
constexpr double kMagnitudeScale = 10.0;

// What is done to the pixels.
enum class AugmentAction {
  kIdentity,
  kAutoContrast,
  kEqualize,
  kInvert,
  kRotate,       // degrees, counterclockwise
  kPosterize,    // bits kept
  kSolarize,     // threshold
  kSolarizeAdd,  // added below 128
  kColor,        // factor, as of the three next ones
  kContrast,
  kBrightness,
  kSharpness,
  kShearX,  // factor
  kShearY,
  kTranslateX,  // pixels
  kTranslateY,
  kTranslateXRel,     // share of the width
  kTranslateYRel,     // share of the height
  kDesaturate,        // share of the colour that is taken away
  kGaussianBlur,      // Pillow's radius in pixels
  kGaussianBlurRand,  // radius drawn from 0.1 to 2 times this
};

// What a magnitude means.
enum class LevelRule {
  kNone,
  kRotate,
  kEnhance,
  kEnhanceIncreasing,
  kShear,
  kTranslate,
  kTranslateRel,
  kPosterize,
  kPosterizeIncreasing,
  kPosterizeOriginal,
  kSolarize,
  kSolarizeIncreasing,
  kSolarizeAdd,
  kDesaturate,
  kBlurRadius,
  kShare,
};

struct AugmentOpKind {
  std::string_view name;  // timm's
  AugmentAction action;
  LevelRule rule;
};

// All operations by timm's names.
const std::vector<AugmentOpKind>& augment_op_kinds();
// Throws ConfigError: no operation of this name.
const AugmentOpKind& augment_op_kind(std::string_view name);

struct AugmentHparams {
  FillColor fill = kGrayFill;
  std::optional<Interpolation> interpolation = {};  // none: bilinear or bicubic by chance
  double translate_const = 250;                     // pixels at magnitude 10
  double translate_pct = 0.45;                      // share of the side at magnitude 10
};

// The argument of an operation at `level`, 0 to 10 or more; `is_negated` turns the sign of those
// that have a direction. Formulas: timm 1.0.31, auto_augment.py.
double level_to_arg(LevelRule rule, double level, bool is_negated, const AugmentHparams& hparams);
// Whether the rule draws a direction.
bool has_direction(LevelRule rule);

struct AugmentOp {
  AugmentOpKind kind;
  double prob = 0.5;
  double magnitude = kMagnitudeScale;
};

enum class PolicyKind { kRand, kSubPolicies, kAugMix };

// A string of timm's, taken apart.
struct AugmentPolicy {
  PolicyKind kind = PolicyKind::kRand;
  std::vector<std::vector<AugmentOp>> sub_policies = {};  // kRand and kAugMix: one, all the choices
  std::vector<double> weights = {};  // kRand: of the choices, adding up to 1; empty: equal, and an
                                     // operation may come twice
  int64_t num_layers = 2;            // kRand: operations an image
  double magnitude_std = 0;          // infinity: uniform from 0 to the magnitude
  double magnitude_max = kMagnitudeScale;
  double alpha = 1;         // kAugMix: of the mixture's distributions
  int64_t width = 3;        // kAugMix: chains
  int64_t depth = -1;       // kAugMix: operations a chain; -1: 1 to 3
  bool is_blended = false;  // kAugMix: mixes 8-bit images one after the other
};

// Buffers of the operations that a thread keeps from image to image.
struct AugmentScratch {
  AffineScratch affine;
  BlurScratch blur;
  std::map<std::string, AugmentPolicy, std::less<>> policies;  // by their text, parsed once
  std::vector<float> sums;                                     // AugMix: [H, W, C]
  Image original, mixture;                                     // AugMix
  SampleGeometry geometry;                                     // AugMix: of the original
};

// One operation with its argument. The result looks at `in`'s pixels or at a buffer of `scratch`;
// changes of geometry are noted in scratch.geometry.
ImageView run_augment_action(AugmentAction action, double arg, Interpolation interpolation,
                             const FillColor& fill, const ImageView& in, RandomStream& random,
                             TransformScratch& scratch);

}  // namespace fovea::data
