// Images in folders: root/class/.../name.{jpg,jpeg,png}; the folder below root is the class.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

struct FolderConfig {
  static constexpr std::string_view kName = "folder";
  std::string path = {};
  std::vector<std::string> class_names = {};
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, "folder with one folder of images (at any depth) for each class",
            {.required = true});
    v.field("class_names", self.class_names,
            "folders that are classes, in label order; default: all, sorted by name, as bytes");
  }
  void validate(ConfigIssues& issues) const;
};

// Lists the folder; images are read when asked for. Order: by class, then by path, as bytes. Throws
// DataError: no such folder, no classes, no image; with kRefused a class without an image, or one
// of class_names without a folder (by name); names that are not UTF-8, folders that cannot be
// listed.
std::shared_ptr<const Dataset> build_folder_dataset(
    const FolderConfig& config, EmptyClasses empty_classes = EmptyClasses::kRefused);

// The files of class folders, of any kind: is_wanted by their names, `kind` for messages ("image
// (.jpg, .png)"), `convert_to` what others are to become. The same errors.
ImageFiles list_class_folders(const FolderConfig& config, EmptyClasses empty_classes,
                              bool (*is_wanted)(std::string_view name), const std::string& kind,
                              const std::string& convert_to);

}  // namespace fovea::data
