// The transforms of augmentation that a recipe can name beside those of configs.h, and the config
// of mixup and cutmix. Names and defaults are torchvision's and timm's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::data {

// timm's ResizeKeepRatio: the image fits around the size (longest: 0) or into it (longest: 1); by
// chance larger, smaller or stretched.
struct ResizeKeepRatioConfig {
  static constexpr std::string_view kName = "resize_keep_ratio";
  std::vector<int64_t> size = {224};
  double longest = 0;
  std::string interpolation = "bilinear";
  double random_scale_prob = 0;
  std::vector<double> random_scale_range = {0.85, 1.05};
  bool random_scale_area = false;
  double random_aspect_prob = 0;
  std::vector<double> random_aspect_range = {0.9, 1.11};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "side, or [height, width], that the image is fitted to",
            {.unit = "pixels", .one_is_list = true});
    v.field("longest", self.longest, "0: the shorter side fits; 1: the longer one; or in between",
            {.min = 0, .max = 1});
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic", "random"}});
    v.field("random_scale_prob", self.random_scale_prob, "probability of a random scale",
            {.min = 0, .max = 1});
    v.field("random_scale_range", self.random_scale_range, "least and largest scale");
    v.field("random_scale_area", self.random_scale_area,
            "the scale is the share of the area that a crop keeps, as for random_resized_crop");
    v.field("random_aspect_prob", self.random_aspect_prob, "probability of a random stretch",
            {.min = 0, .max = 1});
    v.field("random_aspect_range", self.random_aspect_range, "least and largest stretch");
  }
  void validate(ConfigIssues& issues) const;
};

// timm's CenterCropOrPad: the middle of the image, or all of it with a border.
struct CenterCropOrPadConfig {
  static constexpr std::string_view kName = "center_crop_or_pad";
  std::vector<int64_t> size = {224};
  std::vector<int64_t> fill = {0};
  std::string mode = "constant";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("fill", self.fill, "value of new pixels, for mode constant; one number, or three",
            {.one_is_list = true});
    v.field("mode", self.mode, "what new pixels hold",
            {.choices = {"constant", "edge", "reflect"}});
  }
  void validate(ConfigIssues& issues) const;
};

// timm's RandomCropOrPad: the same at a random place.
struct RandomCropOrPadConfig {
  static constexpr std::string_view kName = "random_crop_or_pad";
  std::vector<int64_t> size = {224};
  std::vector<int64_t> fill = {0};
  std::string mode = "constant";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    CenterCropOrPadConfig::visit(v, self);
  }
  void validate(ConfigIssues& issues) const;
};

// timm's train crop mode rkrc: resize_keep_ratio with random scale and stretch, each with
// probability 0.5, then the centre, mirrored at the edges.
struct RkrcConfig {
  static constexpr std::string_view kName = "rkrc";
  std::vector<int64_t> size = {224};
  std::vector<double> scale = {0.8, 1.0};
  std::vector<double> ratio = {0.9, 1.0 / 0.9};
  std::string interpolation = "random";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("scale", self.scale, "least and largest share of the area that is kept");
    v.field("ratio", self.ratio, "least and largest stretch");
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic", "random"}});
  }
  void validate(ConfigIssues& issues) const;
};

// timm's train crop mode rkrr: as rkrc, then a crop at a random place.
struct RkrrConfig {
  static constexpr std::string_view kName = "rkrr";
  std::vector<int64_t> size = {224};
  std::vector<double> scale = {0.8, 1.0};
  std::vector<double> ratio = {0.9, 1.0 / 0.9};
  std::string interpolation = "random";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    RkrcConfig::visit(v, self);
  }
  void validate(ConfigIssues& issues) const;
};

// timm's crop for evaluation: resized to size / crop_pct, then the centre of the size.
struct EvalCropConfig {
  static constexpr std::string_view kName = "eval_crop";
  std::vector<int64_t> size = {224};
  double crop_pct = 0.875;
  std::string crop_mode = "center";
  std::vector<int64_t> fill = {124, 116, 104};
  std::string interpolation = "bicubic";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("crop_pct", self.crop_pct, "share of the resized side that is kept",
            {.min = 0, .max = 1, .exclusive_min = true});
    v.field("crop_mode", self.crop_mode,
            "center: the shorter side is fitted; squash: both are; border: the longer one is, with "
            "borders of `fill`",
            {.choices = {"center", "squash", "border"}});
    v.field("fill", self.fill,
            "value of border pixels; one number, or three; by default ImageNet's mean",
            {.one_is_list = true});
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
  }
  void validate(ConfigIssues& issues) const;
};

// torchvision's ColorJitter, in a random order. Each list is [least, largest] factor; one number x
// stands for 1 - x to 1 + x, of hue for -x to x.
struct ColorJitterConfig {
  static constexpr std::string_view kName = "color_jitter";
  std::vector<double> brightness = {0};
  std::vector<double> contrast = {0};
  std::vector<double> saturation = {0};
  std::vector<double> hue = {0};
  double p = 1.0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("brightness", self.brightness, "range of factors, or the distance from 1",
            {.one_is_list = true});
    v.field("contrast", self.contrast, "range of factors, or the distance from 1",
            {.one_is_list = true});
    v.field("saturation", self.saturation, "range of factors, or the distance from 1",
            {.one_is_list = true});
    v.field("hue", self.hue, "range of turns of the colour circle, -0.5 to 0.5, or the distance",
            {.one_is_list = true});
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
  }
  void validate(ConfigIssues& issues) const;
};

struct GrayscaleConfig {
  static constexpr std::string_view kName = "grayscale";
  double p = 0.1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
  }
};

struct GaussianBlurConfig {
  static constexpr std::string_view kName = "gaussian_blur";
  double p = 0.5;
  std::vector<double> sigma = {0.1, 2.0};
  std::string method = "torchvision";
  int64_t kernel_size = 23;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
    v.field("sigma", self.sigma, "standard deviation: one number, or least and largest",
            {.unit = "pixels", .one_is_list = true});
    v.field("method", self.method, "torchvision: a kernel; pillow: box filters",
            {.choices = {"torchvision", "pillow"}});
    v.field("kernel_size", self.kernel_size, "side of torchvision's kernel, odd",
            {.min = 1, .max = 1001, .unit = "pixels"});
  }
  void validate(ConfigIssues& issues) const;
};

struct SolarizeConfig {
  static constexpr std::string_view kName = "solarize";
  double p = 0.5;
  double threshold = 128;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
    v.field("threshold", self.threshold, "values from here on are inverted",
            {.min = 0, .max = 256});
  }
};

struct PosterizeConfig {
  static constexpr std::string_view kName = "posterize";
  double p = 0.5;
  int64_t bits = 4;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
    v.field("bits", self.bits, "highest bits that are kept", {.min = 0, .max = 8});
  }
};

// timm's rand_augment, auto_augment, 3-Augment and AugMix, by timm's string.
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
};

// torchvision's RandAugment.
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
};

// timm's random erasing of normalised values; stands after normalize.
struct RandomErasingConfig {
  static constexpr std::string_view kName = "random_erasing";
  double p = 0.25;
  std::string mode = "const";
  std::vector<double> scale = {0.02, 1.0 / 3.0};
  std::vector<double> ratio = {0.3, 1.0 / 0.3};
  int64_t min_count = 1;
  int64_t max_count = 1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
    v.field("mode", self.mode,
            "const: zeros; rand: one normal value a channel; pixel: a normal value each",
            {.choices = {"const", "rand", "pixel"}});
    v.field("scale", self.scale, "least and largest share of the area, over all boxes");
    v.field("ratio", self.ratio, "least and largest height / width of a box");
    v.field("min_count", self.min_count, "least number of boxes", {.min = 1, .max = 100});
    v.field("max_count", self.max_count, "largest number of boxes", {.min = 1, .max = 100});
  }
  void validate(ConfigIssues& issues) const;
};

// timm's Mixup: mixup (Zhang et al. 2017) and cutmix (Yun et al. 2019) of a batch.
struct MixupConfig {
  double mixup_alpha = 0;
  double cutmix_alpha = 0;
  std::vector<double> cutmix_minmax = {};
  double prob = 1.0;
  double switch_prob = 0.5;
  std::string mode = "batch";
  bool correct_lam = true;
  bool timm_local = false;

  bool is_on() const { return mixup_alpha > 0 || cutmix_alpha > 0 || !cutmix_minmax.empty(); }

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("mixup_alpha", self.mixup_alpha, "shape of mixup's Beta distribution; 0: no mixup",
            {.min = 0, .max = 1000});
    v.field("cutmix_alpha", self.cutmix_alpha, "shape of cutmix's Beta distribution; 0: no cutmix",
            {.min = 0, .max = 1000});
    v.field("cutmix_minmax", self.cutmix_minmax,
            "least and largest share of a side that cutmix takes, in place of cutmix_alpha");
    v.field("prob", self.prob, "probability of mixing, for a batch or an element",
            {.min = 0, .max = 1});
    v.field("switch_prob", self.switch_prob, "probability of cutmix where both are on",
            {.min = 0, .max = 1});
    v.field("mode", self.mode, "what shares one draw", {.choices = {"batch", "pair", "elem"}});
    v.field("correct_lam", self.correct_lam,
            "targets follow the area that cutmix really took, where its box met the edge");
    v.field(
        "timm_local", self.timm_local,
        "partners from this process's part of the batch, as in timm; results then depend on the "
        "number of processes");
  }
  void validate(ConfigIssues& issues) const;
};

}  // namespace fovea::data
