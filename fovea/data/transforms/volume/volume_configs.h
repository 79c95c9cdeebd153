// The transforms of volumes that a recipe can name, in order, under `transforms:` of a data set of
// volumes. Names, meanings and defaults are MONAI's
// (spatial_resize is its Resize: `resize` is that of images). Axes are D, H, W: MONAI's first,
// second and third spatial axis. Geometry moves values and mask alike; intensity changes
// values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"

namespace fovea::data {

// Pads to at least this size; axes that are larger stay as they are.
struct SpatialPadConfig {
  static constexpr std::string_view kName = "spatial_pad";
  std::vector<int64_t> spatial_size = {};
  std::string method = "symmetric";
  std::string mode = "constant";
  double value = 0;
  int64_t mask_value = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("spatial_size", self.spatial_size,
            "least side, or [depth, height, width]; an axis with 0 or -1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
    v.field("method", self.method, "on both sides of an axis, or at its end only",
            {.choices = {"symmetric", "end"}});
    v.field("mode", self.mode, "what the new voxels hold",
            {.choices = {"constant", "edge", "reflect", "wrap"}});
    v.field("value", self.value, "value of the new voxels, for mode constant");
    v.field("mask_value", self.mask_value,
            "class of the new voxels of the mask, for mode constant; -1: not labelled");
  }
  void validate(ConfigIssues& issues) const;
};

// The middle of the volume; axes that are smaller stay as they are.
struct CenterSpatialCropConfig {
  static constexpr std::string_view kName = "center_spatial_crop";
  std::vector<int64_t> roi_size = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("roi_size", self.roi_size,
            "side, or [depth, height, width]; an axis with 0 or -1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
};

// A box at a random place, of fixed or random size; axes that are smaller stay as they are.
struct RandSpatialCropConfig {
  static constexpr std::string_view kName = "rand_spatial_crop";
  std::vector<int64_t> roi_size = {};
  std::vector<int64_t> max_roi_size = {};
  bool random_center = true;
  bool random_size = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("roi_size", self.roi_size,
            "side, or [depth, height, width]; with random_size the least size; an axis with 0 or "
            "-1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
    v.field("max_roi_size", self.max_roi_size,
            "with random_size: the largest size; empty, or an axis with 0 or -1: the volume's",
            {.unit = "voxels", .one_is_list = true});
    v.field("random_center", self.random_center, "false: the middle of the volume");
    v.field("random_size", self.random_size, "draw the size from roi_size to max_roi_size");
  }
  void validate(ConfigIssues& issues) const;
};

// A box around a voxel that is foreground (class above 0) with probability pos / (pos + neg), else
// background (class 0). Voxels of class -1 are neither.
struct RandCropByPosNegLabelConfig {
  static constexpr std::string_view kName = "rand_crop_by_pos_neg_label";
  std::vector<int64_t> spatial_size = {};
  double pos = 1;
  double neg = 1;
  std::optional<double> image_threshold = {};
  bool allow_smaller = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("spatial_size", self.spatial_size,
            "side, or [depth, height, width]; an axis with 0 or -1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
    v.field("pos", self.pos, "weight of boxes around foreground", {.min = 0});
    v.field("neg", self.neg, "weight of boxes around background", {.min = 0});
    v.field("image_threshold", self.image_threshold,
            "background counts only where some channel is above this; unset: everywhere");
    v.field("allow_smaller", self.allow_smaller,
            "keep an axis that is smaller than the box; false: an error");
  }
  void validate(ConfigIssues& issues) const;
};

// The box that holds every voxel above a threshold. Where its margin leaves the volume, zeros (and
// class 0) are added.
struct CropForegroundConfig {
  static constexpr std::string_view kName = "crop_foreground";
  double threshold = 0;
  std::vector<int64_t> channel_indices = {};
  std::vector<int64_t> margin = {0};
  bool allow_smaller = false;
  std::vector<int64_t> k_divisible = {1};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("threshold", self.threshold, "values above this are foreground");
    v.field("channel_indices", self.channel_indices, "channels that are looked at; empty: all");
    v.field("margin", self.margin,
            "added on both sides of the box, one number or one for each axis",
            {.unit = "voxels", .one_is_list = true});
    v.field("allow_smaller", self.allow_smaller, "end the margin at the border of the volume");
    v.field("k_divisible", self.k_divisible,
            "the box grows until its sides are multiples of this, one number or one for each axis",
            {.unit = "voxels", .one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
};

struct RandFlipConfig {
  static constexpr std::string_view kName = "rand_flip";
  double prob = 0.1;
  std::vector<int64_t> spatial_axis = {};
  bool per_axis = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prob", self.prob, "probability of a flip", {.min = 0, .max = 1});
    v.field("spatial_axis", self.spatial_axis,
            "axes that are flipped: 0 depth, 1 height, 2 width; empty: all", {.one_is_list = true});
    v.field("per_axis", self.per_axis, "one draw for each axis; false: one draw for all together");
  }
  void validate(ConfigIssues& issues) const;
};

// k quarter turns from the first axis of the plane towards the second, as numpy.rot90.
struct RandRotate90Config {
  static constexpr std::string_view kName = "rand_rotate90";
  double prob = 0.1;
  int64_t max_k = 3;
  std::vector<int64_t> spatial_axes = {0, 1};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prob", self.prob, "probability of a rotation", {.min = 0, .max = 1});
    v.field("max_k", self.max_k, "k is drawn from 1 to this", {.min = 1, .max = 3});
    v.field("spatial_axes", self.spatial_axes, "plane: 0 depth, 1 height, 2 width");
  }
  void validate(ConfigIssues& issues) const;
};

// Rotation, shear, translation and scale about the centre, in one resampling: trilinear for values,
// nearest for the mask.
struct RandAffineConfig {
  static constexpr std::string_view kName = "rand_affine";
  double prob = 0.1;
  std::vector<double> rotate_range = {};
  std::vector<double> shear_range = {};
  std::vector<double> translate_range = {};
  std::vector<double> scale_range = {};
  std::vector<int64_t> spatial_size = {-1};
  std::string mode = "bilinear";
  std::string padding_mode = "reflection";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prob", self.prob, "probability of a random transform; else only spatial_size holds",
            {.min = 0, .max = 1});
    v.field("rotate_range", self.rotate_range,
            "angles about the D, H and W axis: three numbers r for [-r, r), or six: least and "
            "largest of each; empty: none",
            {.unit = "radians"});
    v.field("shear_range", self.shear_range,
            "factors of H and W in D, of D and W in H, of D and H in W: six numbers s for [-s, "
            "s), or twelve: least and largest of each; empty: none");
    v.field("translate_range", self.translate_range,
            "shifts along D, H and W: three numbers t for [-t, t), or six: least and largest of "
            "each; empty: none",
            {.unit = "voxels"});
    v.field("scale_range", self.scale_range,
            "1 is added: three numbers s for [1 - s, 1 + s), or six: least and largest of each; "
            "above 1 shrinks what is shown; empty: none");
    v.field("spatial_size", self.spatial_size,
            "side that comes out, or [depth, height, width]; 0 or -1: the volume's",
            {.unit = "voxels", .one_is_list = true});
    v.field("mode", self.mode, "how values are resampled; bilinear is trilinear in 3-D",
            {.choices = {"bilinear", "nearest"}});
    v.field("padding_mode", self.padding_mode, "what lies outside the volume",
            {.choices = {"zeros", "border", "reflection"}});
  }
  void validate(ConfigIssues& issues) const;
};

// Resamples to a fixed size, as MONAI's Resize: trilinear for values. The mask takes the nearest
// voxel.
struct SpatialResizeConfig {
  static constexpr std::string_view kName = "spatial_resize";
  std::vector<int64_t> spatial_size = {};
  bool anti_aliasing = false;
  std::string mask_mode = "nearest-exact";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("spatial_size", self.spatial_size,
            "side, or [depth, height, width]; an axis with 0 or -1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
    v.field("anti_aliasing", self.anti_aliasing,
            "smooth first along axes that shrink, with a sigma of (factor - 1) / 2");
    v.field("mask_mode", self.mask_mode,
            "nearest-exact: the voxel whose centre is nearest, in step with the values; nearest: "
            "the one at floor(i * in / out)",
            {.choices = {"nearest-exact", "nearest"}});
  }
  void validate(ConfigIssues& issues) const;
};

// Resamples to voxels of a given size, trilinear; the mask takes the nearest voxel. The centre of
// the first voxel stays where it is.
struct SpacingConfig {
  static constexpr std::string_view kName = "spacing";
  std::vector<double> pixdim = {};
  std::string padding_mode = "border";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("pixdim", self.pixdim,
            "distance between voxels along D, H, W; one number serves all; 0 or -1: the volume's",
            {.unit = "mm", .required = true, .one_is_list = true});
    v.field("padding_mode", self.padding_mode, "what lies beyond the last voxel",
            {.choices = {"zeros", "border", "reflection"}});
  }
  void validate(ConfigIssues& issues) const;
};

struct RandShiftIntensityConfig {
  static constexpr std::string_view kName = "rand_shift_intensity";
  std::vector<double> offsets = {0.1};
  double prob = 0.1;
  bool channel_wise = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("offsets", self.offsets, "o for [-o, o), or [least, largest]; added to values",
            {.one_is_list = true});
    v.field("prob", self.prob, "probability of a shift", {.min = 0, .max = 1});
    v.field("channel_wise", self.channel_wise, "one draw for each channel");
  }
  void validate(ConfigIssues& issues) const;
};

struct RandScaleIntensityConfig {
  static constexpr std::string_view kName = "rand_scale_intensity";
  std::vector<double> factors = {0.1};
  double prob = 0.1;
  bool channel_wise = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("factors", self.factors, "f for [-f, f), or [least, largest]; values times (1 + f)",
            {.one_is_list = true});
    v.field("prob", self.prob, "probability of a change", {.min = 0, .max = 1});
    v.field("channel_wise", self.channel_wise, "one draw for each channel");
  }
  void validate(ConfigIssues& issues) const;
};

struct RandGaussianNoiseConfig {
  static constexpr std::string_view kName = "rand_gaussian_noise";
  double prob = 0.1;
  double mean = 0;
  double std = 0.1;
  bool sample_std = true;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prob", self.prob, "probability of noise", {.min = 0, .max = 1});
    v.field("mean", self.mean, "mean of the noise");
    v.field("std", self.std, "standard deviation of the noise", {.min = 0});
    v.field("sample_std", self.sample_std, "draw the standard deviation from [0, std)");
  }
};

// Axes of one voxel are not smoothed.
struct RandGaussianSmoothConfig {
  static constexpr std::string_view kName = "rand_gaussian_smooth";
  std::vector<double> sigma_x = {0.25, 1.5};
  std::vector<double> sigma_y = {0.25, 1.5};
  std::vector<double> sigma_z = {0.25, 1.5};
  double prob = 0.1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("sigma_x", self.sigma_x, "least and largest sigma along D", {.unit = "voxels"});
    v.field("sigma_y", self.sigma_y, "least and largest sigma along H", {.unit = "voxels"});
    v.field("sigma_z", self.sigma_z, "least and largest sigma along W", {.unit = "voxels"});
    v.field("prob", self.prob, "probability of smoothing", {.min = 0, .max = 1});
  }
  void validate(ConfigIssues& issues) const;
};

// Windowing: (v - a_min) / (a_max - a_min) * (b_max - b_min) + b_min.
struct ScaleIntensityRangeConfig {
  static constexpr std::string_view kName = "scale_intensity_range";
  double a_min = 0;
  double a_max = 1;
  double b_min = 0;
  double b_max = 1;
  bool clip = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("a_min", self.a_min, "value that becomes b_min, such as -1000 HU", {.required = true});
    v.field("a_max", self.a_max, "value that becomes b_max", {.required = true});
    v.field("b_min", self.b_min, "low end of what comes out");
    v.field("b_max", self.b_max, "high end of what comes out");
    v.field("clip", self.clip, "values outside become b_min or b_max");
  }
  void validate(ConfigIssues& issues) const;
};

// The smallest value becomes minv, the largest maxv. A constant volume becomes value * minv.
struct ScaleIntensityConfig {
  static constexpr std::string_view kName = "scale_intensity";
  double minv = 0;
  double maxv = 1;
  bool channel_wise = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("minv", self.minv, "smallest value that comes out");
    v.field("maxv", self.maxv, "largest value that comes out");
    v.field("channel_wise", self.channel_wise, "smallest and largest of each channel by itself");
  }
};

// (v - mean) / std, of the volume itself or given. A standard deviation of 0 counts as 1.
struct NormalizeIntensityConfig {
  static constexpr std::string_view kName = "normalize_intensity";
  std::vector<double> subtrahend = {};
  std::vector<double> divisor = {};
  bool nonzero = false;
  bool channel_wise = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("subtrahend", self.subtrahend,
            "what is subtracted, one number or one for each channel; empty: the volume's mean",
            {.one_is_list = true});
    v.field("divisor", self.divisor,
            "what is divided by, one number or one for each channel; empty: the volume's standard "
            "deviation",
            {.one_is_list = true});
    v.field("nonzero", self.nonzero, "zeros do not count and stay zero");
    v.field("channel_wise", self.channel_wise, "mean and deviation of each channel by itself");
  }
  void validate(ConfigIssues& issues) const;
};

using VolumeTransformConfig =
    OneOf<SpatialPadConfig, CenterSpatialCropConfig, RandSpatialCropConfig,
          RandCropByPosNegLabelConfig, CropForegroundConfig, RandFlipConfig, RandRotate90Config,
          RandAffineConfig, SpatialResizeConfig, SpacingConfig, RandShiftIntensityConfig,
          RandScaleIntensityConfig, RandGaussianNoiseConfig, RandGaussianSmoothConfig,
          ScaleIntensityRangeConfig, ScaleIntensityConfig, NormalizeIntensityConfig>;

}  // namespace fovea::data

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::OneOfValue<decltype(data::VolumeTransformConfig::value)>;

}  // namespace fovea
