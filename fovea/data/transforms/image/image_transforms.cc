#include "fovea/data/transforms/image/auto_augment.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/color_jitter.h"
#include "fovea/data/transforms/image/crop_or_pad.h"
#include "fovea/data/transforms/image/eval_crop.h"
#include "fovea/data/transforms/image/gaussian_blur.h"
#include "fovea/data/transforms/image/grayscale.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pad.h"
#include "fovea/data/transforms/image/posterize.h"
#include "fovea/data/transforms/image/rand_augment.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/image/random_erasing.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/resize_keep_ratio.h"
#include "fovea/data/transforms/image/resize_to_patches.h"
#include "fovea/data/transforms/image/rkrc_rkrr.h"
#include "fovea/data/transforms/image/solarize.h"
#include "fovea/data/transforms/image/vertical_flip.h"

namespace fovea::data {

// A new transform of images: a line here, and its header above. See docs/adding_a_transform.md.
const ConfigAlternatives& ImageTransform::alternatives() {
  static const ConfigAlternatives all = {
      alternative<ImageTransformOf<ResizeConfig>>(),
      alternative<ImageTransformOf<CenterCropConfig>>(),
      alternative<ImageTransformOf<RandomResizedCropConfig>>(),
      alternative<ImageTransformOf<RandomCropConfig>>(),
      alternative<ImageTransformOf<PadConfig>>(),
      alternative<ImageTransformOf<HorizontalFlipConfig>>(),
      alternative<ImageTransformOf<VerticalFlipConfig>>(),
      alternative<ImageTransformOf<NormalizeConfig>>(),
      alternative<ImageTransformOf<ResizeKeepRatioConfig>>(),
      alternative<ImageTransformOf<CenterCropOrPadConfig>>(),
      alternative<ImageTransformOf<RandomCropOrPadConfig>>(),
      alternative<ImageTransformOf<RkrcConfig>>(),
      alternative<ImageTransformOf<RkrrConfig>>(),
      alternative<ImageTransformOf<EvalCropConfig>>(),
      alternative<ImageTransformOf<ResizeToPatchesConfig>>(),
      alternative<ImageTransformOf<ColorJitterConfig>>(),
      alternative<ImageTransformOf<GrayscaleConfig>>(),
      alternative<ImageTransformOf<GaussianBlurConfig>>(),
      alternative<ImageTransformOf<SolarizeConfig>>(),
      alternative<ImageTransformOf<PosterizeConfig>>(),
      alternative<ImageTransformOf<AutoAugmentConfig>>(),
      alternative<ImageTransformOf<RandAugmentConfig>>(),
      alternative<ImageTransformOf<RandomErasingConfig>>(),
  };
  return all;
}

}  // namespace fovea::data
