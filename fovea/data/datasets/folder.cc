#include "fovea/data/datasets/folder.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/data/decode.h"
#include "fovea/data/image_header.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

bool is_image_name(const std::string& name) {
  constexpr std::array<std::string_view, 3> kEndings = {".jpg", ".jpeg", ".png"};
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  std::string ending = name.substr(dot);
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

// Length of the UTF-8 sequence at the front of `text`; 0: not UTF-8.
size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  const auto follows = [&](size_t count) {
    for (size_t i = 1; i <= count; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xC2 && byte(0) <= 0xDF && follows(1)) return 2;
  if (byte(0) >= 0xE0 && byte(0) <= 0xEF && follows(2)) {
    const bool is_overlong = byte(0) == 0xE0 && byte(1) < 0xA0;
    const bool is_surrogate = byte(0) == 0xED && byte(1) >= 0xA0;
    return is_overlong || is_surrogate ? 0 : 3;
  }
  if (byte(0) >= 0xF0 && byte(0) <= 0xF4 && follows(3)) {
    const bool is_overlong = byte(0) == 0xF0 && byte(1) < 0x90;
    const bool is_too_large = byte(0) == 0xF4 && byte(1) >= 0x90;
    return is_overlong || is_too_large ? 0 : 4;
  }
  return 0;
}

// A name as it may stand in messages, reports and JSON: bytes that are not UTF-8 as \xNN. Control
// characters too, so that a file name cannot write to the terminal.
std::string printable(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const size_t length = utf8_sequence(name);
    const auto first = static_cast<uint8_t>(name[0]);
    if (length == 0 || first < 0x20 || first == 0x7f) {
      text += fmt::format("\\x{:02x}", first);
      name.remove_prefix(1);
    } else {
      text += name.substr(0, length);
      name.remove_prefix(length);
    }
  }
  return text;
}

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

  std::string path_of(int64_t index) const {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    const std::string name = names_.substr(begin, ends_[index] - begin);
    return (fs::path(root_) / class_names_[label_of(index)] / name).string();
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
