#include "fovea/data/datasets/catsdogs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {

std::shared_ptr<const Dataset> build_catsdogs_dataset(const CatsdogsConfig& config) {
  check_input_folder(config.path, "one with images such as cat.0.jpg and dog.0.jpg");
  UnreadFiles unread;
  const auto names = list_image_files(config.path, unread);
  if (names.empty()) {
    fail<DataError>("{}: no image ({}) in the folder{}", printable(config.path),
                    image_endings_text(), unread.text().empty() ? "" : "; " + unread.text());
  }
  unread.warn(config.path, image_kinds());
  const auto class_of = [](const std::string& name) { return name.substr(0, name.find('.')); };
  std::set<std::string> found;
  for (const auto& name : names) found.insert(printable(class_of(name)));
  ImageFiles files;
  files.root = config.path;
  files.class_names = config.class_names.empty()
                          ? std::vector<std::string>(found.begin(), found.end())
                          : config.class_names;
  files.num_classes = static_cast<int64_t>(files.class_names.size());
  for (const auto& name : names) {
    const auto label =
        std::find(files.class_names.begin(), files.class_names.end(), printable(class_of(name)));
    if (label == files.class_names.end()) {
      fail<DataError>("{}/{}: the class \"{}\" is none of class_names; add it or remove the image",
                      printable(config.path), printable(name), printable(class_of(name)));
    }
    files.images.add(name);
    files.labels.push_back(label - files.class_names.begin());
  }
  return std::make_shared<ImageFilesDataset>(std::move(files));
}

}  // namespace fovea::data
