#include "fovea/data/datasets/folder.h"

#include <algorithm>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/core/nearest.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/files_below.h"
#include "fovea/files/unread_files.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_list(const fs::path& folder, const std::error_code& error) {
  fail<DataError>("{}: cannot list the folder ({}); check the path and its permissions",
                  printable(folder.string()), error.message());
}

// Names of the folders in `root`, sorted as bytes; hidden ones are left out. `outside`: gets the
// files that stand beside the folders.
std::vector<std::string> list_classes(const fs::path& root, UnreadFiles& outside) {
  check_input_folder(root.string(), "one with a folder of images for each class");
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name[0] == '.') continue;
    if (entry->is_directory(ignored)) {
      names.push_back(name);
    } else if (!is_clutter(name)) {
      outside.add_kind("outside the class folders", name);
    }
  }
  if (error) fail_to_list(root, error);
  std::sort(names.begin(), names.end());
  if (names.empty()) {
    fail<DataError>("{}: holds no folders; expected one for each class, with its images",
                    root.string());
  }
  for (const std::string& name : names) {
    if (printable(name) != name) {
      fail<DataError>("{}/{}: the name of the class is not plain UTF-8 text; rename the folder",
                      root.string(), printable(name));
    }
  }
  return names;
}

}  // namespace

void FolderConfig::validate(ConfigIssues& issues) const {
  std::vector<std::string> sorted = class_names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    issues.add("class_names",
               fmt::format("\"{}\" stands there twice; list each class once", *twice));
  }
}

std::shared_ptr<const Dataset> build_folder_dataset(const FolderConfig& config,
                                                    EmptyClasses empty_classes) {
  return std::make_shared<ImageFilesDataset>(
      list_class_folders(config, empty_classes, is_image_name,
                         fmt::format("image ({})", image_endings_text()), image_kinds()));
}

ImageFiles list_class_folders(const FolderConfig& config, EmptyClasses empty_classes,
                              bool (*is_wanted)(std::string_view name), const std::string& kind,
                              const std::string& convert_to) {
  const bool is_strict = empty_classes == EmptyClasses::kRefused;
  UnreadFiles unread;
  std::vector<std::string> names = list_classes(config.path, unread);
  for (const std::string& name : config.class_names) {
    if (is_strict && !std::binary_search(names.begin(), names.end(), name)) {
      fail<DataError>("{}: class_names lists \"{}\", but there is no such folder{}", config.path,
                      name, or_did_you_mean(name, names));
    }
  }
  ImageFiles files;
  files.root = config.path;
  files.class_names = config.class_names.empty() ? std::move(names) : config.class_names;
  files.num_classes = static_cast<int64_t>(files.class_names.size());
  for (int64_t label = 0; label < files.num_classes; ++label) {
    const std::string& name = files.class_names[static_cast<size_t>(label)];
    if (!is_folder(fs::path(config.path) / name)) continue;
    const auto images =
        list_files_below((fs::path(config.path) / name).string(), is_wanted, unread);
    if (images.empty() && is_strict) {
      fail<DataError>("{}/{}: the class \"{}\" has no {}{}; add some or remove the folder",
                      printable(config.path), printable(name), printable(name), kind,
                      unread.text().empty() ? "" : " and " + unread.text());
    }
    for (const std::string& image : images) {
      files.images.add((fs::path(name) / image).native());
      files.labels.push_back(label);
    }
  }
  if (files.images.size() == 0) {
    fail<DataError>("{}: no {} in the folders of its classes{}", printable(config.path), kind,
                    unread.text().empty() ? "" : "; " + unread.text());
  }
  unread.warn(config.path, convert_to);
  return files;
}

}  // namespace fovea::data
