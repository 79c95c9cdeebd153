// HDF5 files of images or volumes stacked along a dimension N. An optional part of the build: it is
// there where libhdf5 was found. For files that you trust: HDF5's own library reads them, and it
// has a history of memory faults on files that are made to harm.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/config_fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct Hdf5Config {
  static constexpr std::string_view kTag = "format";
  static constexpr std::string_view kName = "hdf5";
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
    v.field("path", self.path, "the HDF5 file; only one that you trust", {.required = true});
    v.field("images", self.images, "path of the images or volumes in the file");
    v.field("labels", self.labels, "path of the labels, [N] or [N, 1]");
    v.field("masks", self.masks, "path of the masks: as images, without C");
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

// Samples are read one by one, under one lock: the library is not made for threads. Throws
// ConfigError where this build has no HDF5; DataError: no such file or array, another type than
// numbers, counts that differ, labels that are no classes.
std::shared_ptr<const Dataset> build_hdf5_dataset(const Hdf5Config& config);

}  // namespace fovea::data
