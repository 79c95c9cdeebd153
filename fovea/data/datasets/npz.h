// NumPy's .npz files: arrays of images or volumes, with labels or masks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/config_fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct NpzConfig {
  static constexpr std::string_view kTag = "format";
  static constexpr std::string_view kName = "npz";
  std::string path = {};
  std::string images = "images";
  std::string labels = {};
  std::string masks = {};
  std::string axes = {};
  std::vector<std::string> class_names = {};
  std::optional<int64_t> num_classes = {};
  int64_t label_offset = 0;
  std::vector<int64_t> ignore_values = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, "the .npz file", {.required = true});
    v.field("images", self.images, "name of the array of images or volumes");
    v.field("labels", self.labels, "name of the array of labels, [N] or [N, 1]");
    v.field("masks", self.masks, "name of the array of masks: as images, without C");
    v.field(
        "axes", self.axes,
        "what the dimensions of images are, such as NHWC or NCDHW; default: told from the shape");
    v.field("class_names", self.class_names, "names of the classes, in label order");
    v.field(
        "num_classes", self.num_classes,
        "number of classes (of voxels, where there are masks); default: that of class_names, or "
        "the largest label + 1",
        {.min = 1});
    v.field("label_offset", self.label_offset, "number in masks that is class 0");
    v.field("ignore_values", self.ignore_values, "numbers in masks that stand for no class (-1)",
            {.one_is_list = true});
    v.field("transforms", self.transforms, "what is done to an image or volume, in order");
  }
};

// Arrays are held in memory. Throws DataError: a damaged file, an array that is missing or of
// objects, counts that differ, labels that are no classes.
std::shared_ptr<const Dataset> build_npz_dataset(const NpzConfig& config);

}  // namespace fovea::data
