// WebDataset: tar archives whose files belong to one sample where they share the name up to the
// first dot: 000017.jpg, 000017.cls. Samples are read in any order, through an index of each tar.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct WdsConfig {
  static constexpr std::string_view kName = "wds";
  std::vector<std::string> path = {};
  std::string index = {};
  std::vector<std::string> images = image_endings();
  std::string label = "auto";
  std::string label_key = "label";
  std::vector<std::string> class_names = {};
  std::optional<int64_t> num_classes = {};
  bool unique_keys = true;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path,
            "tars, with braces where there are many: train-{000000..000146}.tar; or a folder of "
            "tars",
            {.required = true, .one_is_list = true});
    v.field("index", self.index,
            "folder with idx_0.txt, idx_1.txt, ... in the order of the tars, or names with braces; "
            "default: x.idx beside x.tar, and without it the tar is walked over once");
    v.field("images", self.images, "endings that are the image, the first that a sample has");
    v.field("label", self.label,
            "ending that is the label, such as cls, json or txt; auto: the first of those three "
            "that there is; none: no labels");
    v.field("label_key", self.label_key, "where the label stands in a JSON file");
    v.field("class_names", self.class_names, "names of the classes, in label order");
    v.field(
        "num_classes", self.num_classes,
        "number of classes; default: that of class_names, else all labels are read at the start",
        {.min = 1, .max = kMaxClasses});
    v.field("unique_keys", self.unique_keys,
            "two samples with one key are an error; false: only where both are in one tar");
  }
  void validate(ConfigIssues& issues) const;
};

// The tars that `path` stands for, in order. Throws ConfigError (braces) and DataError (an empty
// folder).
std::vector<std::string> wds_tars(const std::vector<std::string>& path);

// A label as text, an integer or a name of `class_names`; `name` is what messages call its place.
// Throws DataError: neither, or not in [0, num_classes) (num_classes 0: any that is not negative).
int64_t parse_wds_label(std::string_view text, const std::vector<std::string>& class_names,
                        int64_t num_classes, const std::string& name);

// Opens all tars and their indices, in parallel. Throws DataError: files that are missing or
// damaged, two samples with one key (both named), samples without image or label.
std::shared_ptr<const Dataset> build_wds_dataset(const WdsConfig& config);

}  // namespace fovea::data
