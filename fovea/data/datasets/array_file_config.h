// The keys of formats that keep named arrays in one file: npz, hdf5.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

// `Format` has the format's kName and what is said of `path`. Names of arrays in HDF5 are paths.
template <class Format>
struct ArrayFileConfig {
  static constexpr std::string_view kName = Format::kName;
  static constexpr std::string_view kSample = "an image or volume";
  std::string path = {};
  std::string images = "images";
  std::string labels = {};
  std::string masks = {};
  std::string axes = {};
  std::vector<std::string> class_names = {};
  std::optional<int64_t> num_classes = {};
  int64_t label_offset = 0;
  std::vector<int64_t> ignore_values = {};
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, Format::kPathHelp, {.required = true});
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
        {.min = 1, .max = kMaxClasses});
    v.field("label_offset", self.label_offset, "number in masks that is class 0");
    v.field("ignore_values", self.ignore_values, "numbers in masks that stand for no class (-1)",
            {.one_is_list = true});
    v.field("max_unpacked_bytes", self.max_unpacked_bytes, kUnpackedBytesHelp,
            {.min = 1, .unit = "bytes"});
  }
};

}  // namespace fovea::data
