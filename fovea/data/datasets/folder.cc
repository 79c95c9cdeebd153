#include "fovea/data/datasets/folder.h"

#include <algorithm>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/data/decode.h"
#include "fovea/data/image_header.h"
#include "fovea/data/names.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_list(const fs::path& folder, const std::error_code& error) {
  fail<DataError>("{}: cannot list the folder ({}); check the path and its permissions",
                  printable(folder.string()), error.message());
}

// Names of the folders in `root`, sorted as bytes; hidden ones are left out.
std::vector<std::string> list_classes(const fs::path& root) {
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    fail<DataError>("{}: no such folder; expected one with a folder of images for each class",
                    root.string());
  }
  std::vector<std::string> names;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name[0] != '.' && entry->is_directory(ignored)) names.push_back(name);
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

// Paths below `folder` of all images in it, sorted as bytes.
std::vector<std::string> list_images(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || entry->is_directory(ignored) || !is_image_name(name)) continue;
    paths.push_back(entry->path().lexically_relative(folder).string());
  }
  if (error) fail_to_list(folder, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Millions of paths: one string of all of them, without what they share.
class FolderDataset : public Dataset {
 public:
  FolderDataset(std::string root, std::vector<std::string> class_names)
      : root_(std::move(root)), class_names_(std::move(class_names)) {
    for (const std::string& name : class_names_) {
      first_of_class_.push_back(size());
      const auto images = list_images(fs::path(root_) / name);
      if (images.empty()) {
        fail<DataError>(
            "{}/{}: the class \"{}\" has no image (.jpg, .jpeg, .png); add some or remove the "
            "folder",
            root_, name, name);
      }
      for (const std::string& image : images) {
        names_ += image;
        ends_.push_back(names_.size());
      }
    }
    names_.shrink_to_fit();
  }

  int64_t size() const override { return static_cast<int64_t>(ends_.size()); }
  int64_t num_classes() const override { return static_cast<int64_t>(class_names_.size()); }
  const std::vector<std::string>& class_names() const override { return class_names_; }

  void read(int64_t index, Sample& sample) const override {
    const std::string path = path_of(index);
    load_image(path, printable(path), sample.image);
    sample.label = label_of(index);
  }

  void read_undecoded(int64_t index, Sample& sample) const override {
    thread_local std::string path;
    find_path(index, path);
    read_image_file(path, sample.encoded.buffer);
    sample.encoded.bytes = sample.encoded.buffer;
    sample.label = label_of(index);
  }

  VolumeSize size_of(int64_t index) const override {
    const auto size = image_file_size(path_of(index));
    return size ? VolumeSize{1, size->height, size->width} : Dataset::size_of(index);
  }

  std::string describe(int64_t index) const override { return printable(path_of(index)); }

 private:
  int64_t label_of(int64_t index) const {
    const auto after = std::upper_bound(first_of_class_.begin(), first_of_class_.end(), index);
    return after - first_of_class_.begin() - 1;
  }

  // Into `path`, which keeps its memory.
  void find_path(int64_t index, std::string& path) const {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    path.assign(root_).append(root_.ends_with('/') ? "" : "/");
    path.append(class_names_[label_of(index)]).append("/");
    path.append(names_, begin, ends_[index] - begin);
  }

  std::string path_of(int64_t index) const {
    std::string path;
    find_path(index, path);
    return path;
  }

  std::string root_;
  std::vector<std::string> class_names_;
  std::vector<int64_t> first_of_class_;  // [num_classes]
  std::string names_;                    // paths below the class folders, one after the other
  std::vector<size_t> ends_;             // [size]: where each ends
};

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

std::shared_ptr<const Dataset> build_folder_dataset(const FolderConfig& config) {
  std::vector<std::string> names = list_classes(config.path);
  for (const std::string& name : config.class_names) {
    if (!std::binary_search(names.begin(), names.end(), name)) {
      fail<DataError>("{}: class_names lists \"{}\", but there is no such folder", config.path,
                      name);
    }
  }
  if (!config.class_names.empty()) names = config.class_names;
  return std::make_shared<FolderDataset>(config.path, std::move(names));
}

}  // namespace fovea::data
