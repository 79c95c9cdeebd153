// torchvision's RandAugment.
#pragma once

#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct RandAugmentConfig {
  static constexpr std::string_view kName = "rand_augment";
  int64_t num_ops = 2;
  int64_t magnitude = 9;
  int64_t num_magnitude_bins = 31;
  std::string interpolation = "nearest";
  std::vector<int64_t> fill = {0};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("num_ops", self.num_ops, "operations an image", {.min = 0, .max = 100});
    v.field("magnitude", self.magnitude, "strength, below num_magnitude_bins", {.min = 0});
    v.field("num_magnitude_bins", self.num_magnitude_bins, "number of strengths",
            {.min = 2, .max = 1000});
    v.field("interpolation", self.interpolation, "how geometry is resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
    v.field("fill", self.fill, "value of pixels from outside; one number, or three",
            {.one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return true; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

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
