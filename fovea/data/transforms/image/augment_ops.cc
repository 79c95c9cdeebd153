#include "fovea/data/transforms/image/augment_ops.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/color_ops.h"
#include "fovea/data/transforms/image/transform_scratch.h"

namespace fovea::data {
namespace {

// A whole number, fractions cut off: Python's int().
double whole(double value) { return std::trunc(value); }

double enhance_increasing(double share, bool is_negated) {
  const double distance = share * 0.9;
  return std::max(0.1, 1.0 + (is_negated ? -distance : distance));
}

double between(double share, double low, double high) {
  return std::clamp(low + (high - low) * share, low, high);
}

AffineMatrix matrix_of(AugmentAction action, double arg, ImageSize size) {
  switch (action) {
    case AugmentAction::kRotate:
      return rotate_matrix(arg, size);
    case AugmentAction::kShearX:
      return shear_x_matrix(arg);
    case AugmentAction::kShearY:
      return shear_y_matrix(arg);
    case AugmentAction::kTranslateX:
      return translate_matrix(arg, 0);
    case AugmentAction::kTranslateY:
      return translate_matrix(0, arg);
    case AugmentAction::kTranslateXRel:
      return translate_matrix(arg * static_cast<double>(size.width), 0);
    default:
      return translate_matrix(0, arg * static_cast<double>(size.height));
  }
}

void run_value_action(AugmentAction action, double arg, const ImageView& in, RandomStream& random,
                      BlurScratch& blur, Image& out) {
  switch (action) {
    case AugmentAction::kAutoContrast:
      return auto_contrast(in, out);
    case AugmentAction::kEqualize:
      return equalize(in, out);
    case AugmentAction::kInvert:
      return apply_table(in, invert_table(), out);
    case AugmentAction::kPosterize:
      return apply_table(in, posterize_table(static_cast<int>(std::clamp(arg, 0.0, 8.0))), out);
    case AugmentAction::kSolarize:
      return apply_table(in, solarize_table(arg), out);
    case AugmentAction::kSolarizeAdd:
      return apply_table(in, solarize_add_table(static_cast<int>(arg)), out);
    case AugmentAction::kColor:
      return adjust_saturation(in, arg, out);
    case AugmentAction::kContrast:
      return adjust_contrast(in, arg, out);
    case AugmentAction::kBrightness:
      return adjust_brightness(in, arg, out);
    case AugmentAction::kSharpness:
      return adjust_sharpness(in, arg, out);
    case AugmentAction::kDesaturate:
      return adjust_saturation(in, std::clamp(1.0 - arg, 0.0, 1.0), out);
    case AugmentAction::kGaussianBlur:
      return gaussian_blur_pillow(in, arg, out, blur);
    default:
      return gaussian_blur_pillow(in, random.uniform(0.1, 2.0 * arg), out, blur);
  }
}

bool is_geometry(AugmentAction action) {
  return action == AugmentAction::kRotate ||
         (action >= AugmentAction::kShearX && action <= AugmentAction::kTranslateYRel);
}

}  // namespace

const std::vector<AugmentOpKind>& augment_op_kinds() {
  using A = AugmentAction;
  using R = LevelRule;
  static const std::vector<AugmentOpKind> kinds = {
      {"AutoContrast", A::kAutoContrast, R::kNone},
      {"Equalize", A::kEqualize, R::kNone},
      {"Invert", A::kInvert, R::kNone},
      {"Rotate", A::kRotate, R::kRotate},
      {"Posterize", A::kPosterize, R::kPosterize},
      {"PosterizeIncreasing", A::kPosterize, R::kPosterizeIncreasing},
      {"PosterizeOriginal", A::kPosterize, R::kPosterizeOriginal},
      {"Solarize", A::kSolarize, R::kSolarize},
      {"SolarizeIncreasing", A::kSolarize, R::kSolarizeIncreasing},
      {"SolarizeAdd", A::kSolarizeAdd, R::kSolarizeAdd},
      {"Color", A::kColor, R::kEnhance},
      {"ColorIncreasing", A::kColor, R::kEnhanceIncreasing},
      {"Contrast", A::kContrast, R::kEnhance},
      {"ContrastIncreasing", A::kContrast, R::kEnhanceIncreasing},
      {"Brightness", A::kBrightness, R::kEnhance},
      {"BrightnessIncreasing", A::kBrightness, R::kEnhanceIncreasing},
      {"Sharpness", A::kSharpness, R::kEnhance},
      {"SharpnessIncreasing", A::kSharpness, R::kEnhanceIncreasing},
      {"ShearX", A::kShearX, R::kShear},
      {"ShearY", A::kShearY, R::kShear},
      {"TranslateX", A::kTranslateX, R::kTranslate},
      {"TranslateY", A::kTranslateY, R::kTranslate},
      {"TranslateXRel", A::kTranslateXRel, R::kTranslateRel},
      {"TranslateYRel", A::kTranslateYRel, R::kTranslateRel},
      {"Desaturate", A::kDesaturate, R::kDesaturate},
      {"GaussianBlur", A::kGaussianBlur, R::kBlurRadius},
      {"GaussianBlurRand", A::kGaussianBlurRand, R::kShare},
  };
  return kinds;
}

const AugmentOpKind& augment_op_kind(std::string_view name) {
  for (const auto& kind : augment_op_kinds()) {
    if (kind.name == name) return kind;
  }
  fail<ConfigError>("no augmentation is named {}; expected one of timm's, such as Rotate", name);
}

bool has_direction(LevelRule rule) {
  return rule == LevelRule::kRotate || rule == LevelRule::kEnhanceIncreasing ||
         rule == LevelRule::kShear || rule == LevelRule::kTranslate ||
         rule == LevelRule::kTranslateRel;
}

double level_to_arg(LevelRule rule, double level, bool is_negated, const AugmentHparams& hparams) {
  const double share = level / kMagnitudeScale;
  const auto directed = [&](double value) { return is_negated ? -value : value; };
  switch (rule) {
    case LevelRule::kNone:
      return 0;
    case LevelRule::kRotate:
      return directed(share * 30.0);
    case LevelRule::kEnhance:
      return share * 1.8 + 0.1;
    case LevelRule::kEnhanceIncreasing:
      return enhance_increasing(share, is_negated);
    case LevelRule::kShear:
      return directed(share * 0.3);
    case LevelRule::kTranslate:
      return directed(share * hparams.translate_const);
    case LevelRule::kTranslateRel:
      return directed(share * hparams.translate_pct);
    case LevelRule::kPosterize:
      return whole(share * 4);
    case LevelRule::kPosterizeIncreasing:
      return 4 - whole(share * 4);
    case LevelRule::kPosterizeOriginal:
      return whole(share * 4) + 4;
    case LevelRule::kSolarize:
      return std::min(256.0, whole(share * 256));
    case LevelRule::kSolarizeIncreasing:
      return 256 - std::min(256.0, whole(share * 256));
    case LevelRule::kSolarizeAdd:
      return std::min(128.0, whole(share * 110));
    case LevelRule::kDesaturate:
      return between(share, 0.5, 1.0);
    case LevelRule::kBlurRadius:
      return between(share, 0.1, 2.0);
    case LevelRule::kShare:
      return between(share, 0.0, 1.0);
  }
  return 0;
}

ImageView run_augment_action(AugmentAction action, double arg, Interpolation interpolation,
                             const FillColor& fill, const ImageView& in, RandomStream& random,
                             TransformScratch& scratch) {
  if (action == AugmentAction::kIdentity) return in;
  if (action == AugmentAction::kPosterize && arg >= 8) return in;
  Image& out = scratch.next_image();
  if (is_geometry(action)) {
    const AffineMatrix matrix = matrix_of(action, arg, in.size());
    affine(in, matrix, interpolation, fill, out, scratch.augment.affine);
    scratch.geometry.append(matrix, in.size());
  } else {
    run_value_action(action, arg, in, random, scratch.augment.blur, out);
  }
  return ImageView(out);
}

}  // namespace fovea::data
