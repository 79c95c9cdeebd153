// The transforms a recipe can name, in order, under `transforms:`. Sizes and their meanings are
// torchvision's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"
#include "fovea/data/transforms/image/augment_configs.h"

namespace fovea::data {

// A random box (area share in `scale`, aspect ratio in `ratio`), resized: torchvision's and timm's
// crop for training.
struct RandomResizedCropConfig {
  static constexpr std::string_view kName = "random_resized_crop";
  std::vector<int64_t> size = {224};
  std::vector<double> scale = {0.08, 1.0};
  std::vector<double> ratio = {3.0 / 4.0, 4.0 / 3.0};
  std::string interpolation = "bicubic";
  bool scaled_decode = true;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("scale", self.scale, "least and largest share of the area that is kept");
    v.field("ratio", self.ratio, "least and largest width / height of the box");
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
    v.field("scaled_decode", self.scaled_decode,
            "let the JPEG decoder shrink by 2, 4 or 8 where the box is at least that much larger "
            "than the output: faster, pixels then differ a little from Pillow's");
  }
  void validate(ConfigIssues& issues) const;
};

// One number: the shorter edge gets this length and the aspect ratio is kept. Two: exactly this
// size.
struct ResizeConfig {
  static constexpr std::string_view kName = "resize";
  std::vector<int64_t> size = {256};
  std::string interpolation = "bicubic";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "length of the shorter edge, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
  }
  void validate(ConfigIssues& issues) const;
};

// The middle of the image; where the image is smaller it is first padded with zeros.
struct CenterCropConfig {
  static constexpr std::string_view kName = "center_crop";
  std::vector<int64_t> size = {224};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
};

struct PadConfig {
  static constexpr std::string_view kName = "pad";
  std::vector<int64_t> padding = {4};
  int64_t fill = 0;
  std::string mode = "constant";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("padding", self.padding,
            "pixels added on every side, or [left and right, top and bottom], or [left, top, "
            "right, bottom]",
            {.unit = "pixels", .one_is_list = true});
    v.field("fill", self.fill, "value of the new pixels, for mode constant",
            {.min = 0, .max = 255});
    v.field("mode", self.mode, "what the new pixels hold",
            {.choices = {"constant", "edge", "reflect"}});
  }
  void validate(ConfigIssues& issues) const;
};

// Padding, then a window of fixed size at a random place.
struct RandomCropConfig {
  static constexpr std::string_view kName = "random_crop";
  std::vector<int64_t> size = {32};
  std::vector<int64_t> padding = {0};
  int64_t fill = 0;
  std::string mode = "constant";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "output side, or [height, width]",
            {.unit = "pixels", .one_is_list = true});
    v.field(
        "padding", self.padding,
        "pixels added before, as for pad: one number, [left and right, top and bottom], or four",
        {.unit = "pixels", .one_is_list = true});
    v.field("fill", self.fill, "value of the new pixels, for mode constant",
            {.min = 0, .max = 255});
    v.field("mode", self.mode, "what the new pixels hold",
            {.choices = {"constant", "edge", "reflect"}});
  }
  void validate(ConfigIssues& issues) const;
};

// For models with patching: packed, which take images of any size in whole patches (Dehghani et al.
// 2023, NaViT): the image keeps its aspect ratio, but for the rounding to whole patches.
struct ResizeToPatchesConfig {
  static constexpr std::string_view kName = "resize_to_patches";
  int64_t patch_size = 16;
  int64_t max_patches = 256;
  std::optional<int64_t> min_patches = {};
  bool enlarge = false;
  std::string interpolation = "bicubic";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("patch_size", self.patch_size, "side of a patch, the model's",
            {.min = 1, .max = 1024, .unit = "pixels"});
    v.field("max_patches", self.max_patches, "an image that has more is shrunk to at most so many",
            {.min = 1, .unit = "patches"});
    v.field("min_patches", self.min_patches,
            "the limit is drawn for each image, from min_patches to max_patches; none: it is "
            "max_patches",
            {.min = 1, .unit = "patches", .null_word = "none"});
    v.field("enlarge", self.enlarge,
            "images with fewer patches than the limit are enlarged to it; false: they keep their "
            "size");
    v.field("interpolation", self.interpolation, "how pixels are resampled",
            {.choices = {"nearest", "bilinear", "bicubic"}});
  }
  void validate(ConfigIssues& issues) const;
};

struct HorizontalFlipConfig {
  static constexpr std::string_view kName = "horizontal_flip";
  double p = 0.5;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability of a flip", {.min = 0, .max = 1});
  }
};

struct VerticalFlipConfig {
  static constexpr std::string_view kName = "vertical_flip";
  double p = 0.5;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability of a flip", {.min = 0, .max = 1});
  }
};

// (byte / 255 - mean) / std by channel; the last of the list. Without it images are byte / 255.
struct NormalizeConfig {
  static constexpr std::string_view kName = "normalize";
  std::vector<double> mean = {0.5};
  std::vector<double> std = {0.5};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("mean", self.mean,
            "mean of each channel on a scale of 0 to 1; one number serves all channels",
            {.one_is_list = true});
    v.field("std", self.std, "standard deviation of each channel; one number serves all channels",
            {.one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
  // Fills mean and std with the statistics of a named data set.
  bool apply_preset(const std::string& name);
  static std::vector<std::string> preset_names();
};

using TransformConfig =
    OneOf<ResizeConfig, CenterCropConfig, RandomResizedCropConfig, RandomCropConfig, PadConfig,
          HorizontalFlipConfig, VerticalFlipConfig, NormalizeConfig, ResizeKeepRatioConfig,
          CenterCropOrPadConfig, RandomCropOrPadConfig, RkrcConfig, RkrrConfig, EvalCropConfig,
          ResizeToPatchesConfig, ColorJitterConfig, GrayscaleConfig, GaussianBlurConfig,
          SolarizeConfig, PosterizeConfig, AutoAugmentConfig, RandAugmentConfig,
          RandomErasingConfig>;

}  // namespace fovea::data

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::OneOfValue<decltype(data::TransformConfig::value)>;

}  // namespace fovea
