// Adaptive patching: how an image or a volume becomes a sequence of patches, small where the detail
// is and large where there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::data {

struct AdaptivePatchingConfig {
  int64_t fixed_length = 196;
  int64_t patch_size = 16;
  int64_t min_leaf = 2;
  std::optional<int64_t> max_depth = {};
  std::string criterion = "canny";
  std::vector<int64_t> smoothing = {0, 1, 3, 5};
  std::vector<int64_t> canny_thresholds = {50, 100};
  std::vector<double> value_range = {0.0, 1.0};
  bool noise = false;
  bool separate_channels = false;
  bool upstream_compatible = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("fixed_length", self.fixed_length,
            "patches of each sample; where the tree has fewer leaves the rest is padding",
            {.min = 1, .unit = "patches"});
    v.field("patch_size", self.patch_size, "side that every leaf is resized to",
            {.min = 1, .max = 1024, .unit = "pixels"});
    v.field("min_leaf", self.min_leaf, "smallest side of a leaf", {.min = 1, .unit = "pixels"});
    v.field("max_depth", self.max_depth, "how often a part of the image is split at most",
            {.min = 0, .max = 20, .null_word = "none"});
    v.field("criterion", self.criterion,
            "what counts as detail: Canny's edges (of a volume: of its slices), of those the ones "
            "whose direction lies in the upper half (canny_direction, volumes only), Sobel's "
            "gradient, or the squared deviation from the mean",
            {.choices = {"canny", "canny_direction", "gradient", "variance"}});
    v.field("smoothing", self.smoothing,
            "blur before the edges, one of these is drawn for each sample: side of the Gaussian "
            "kernel for images (0, 1, 3 or 5), its standard deviation in voxels for volumes",
            {.one_is_list = true});
    v.field("canny_thresholds", self.canny_thresholds,
            "the lower threshold is drawn from [first, second), on a scale of 255; the upper one "
            "is 50 more",
            {});
    v.field("value_range", self.value_range,
            "values of a volume that become black and white before its edges are sought");
    v.field("noise", self.noise,
            "where smoothing 0 is drawn for an image, its tree is grown from random noise");
    v.field("separate_channels", self.separate_channels, "a tree for each channel");
    v.field("upstream_compatible", self.upstream_compatible,
            "do as UCF-VIT does where that is odd: noise for smoothing 0; stop as soon as the node "
            "with most detail cannot be split; no averaging where leaves shrink; corners of leaves "
            "on corners of patches in volumes");
  }
  void validate(ConfigIssues& issues) const;
  // upstream_compatible brings its own.
  bool has_noise() const { return noise || upstream_compatible; }
};

}  // namespace fovea::data
