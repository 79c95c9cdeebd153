// Images named in a list: a CSV file or JSON lines, with a label and a mask for each where wanted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct FileListConfig {
  static constexpr std::string_view kName = "list";
  std::string path = {};
  std::string root = {};
  bool unique_paths = true;
  std::vector<std::string> class_names = {};
  std::optional<int64_t> num_classes = {};
  int64_t ignored_class = 255;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path,
            "list: CSV (path,label,mask) or, with the ending .jsonl, an object a line",
            {.required = true});
    v.field("root", self.root, "folder that paths start from; default: that of the list");
    v.field("unique_paths", self.unique_paths,
            "one image on two lines is an error; false: it counts as often as it stands there");
    v.field("class_names", self.class_names,
            "names of the classes, in label order; default: the labels of the list, sorted, where "
            "they are not numbers");
    v.field("num_classes", self.num_classes, "number of classes; default: largest label + 1",
            {.min = 1, .max = kMaxClasses});
    v.field("ignored_class", self.ignored_class, "value in masks that stands for no class",
            {.min = 0, .max = 255});
  }
  void validate(ConfigIssues& issues) const;
};

// Reads the list; images are read when asked for. Throws DataError naming the line: an empty list,
// a label that is no class, a line without what other lines have, two lines with one image.
std::shared_ptr<const Dataset> build_file_list_dataset(const FileListConfig& config);

// What such a list names, whatever its files are. The same errors.
ImageFiles read_image_list(const FileListConfig& config);

}  // namespace fovea::data
