#include "fovea/data/datasets/tiny_imagenet.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/core/log.h"
#include "fovea/core/text.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;  // words.txt has 2.7 MB

// The lines of a text file, each split at tabs.
std::vector<std::vector<std::string>> read_table(const fs::path& path) {
  const std::string text = read_file(path.string(), kMaxTextBytes);
  std::vector<std::vector<std::string>> lines;
  for (std::string_view rest = text; !rest.empty();) {
    auto line = take_line(rest);
    if (line.ends_with('\r')) line.remove_suffix(1);
    auto& fields = lines.emplace_back();
    for (size_t tab = line.find('\t'); tab != line.npos; tab = line.find('\t')) {
      fields.emplace_back(line.substr(0, tab));
      line.remove_prefix(tab + 1);
    }
    fields.emplace_back(line);
  }
  return lines;
}

void check_class(const fs::path& file, const std::string& wnid) {
  if (wnid.find('/') == std::string::npos && wnid[0] != '.') return;
  fail<DataError>("{}: \"{}\" cannot be the name of a class", printable(file.string()),
                  printable(wnid));
}

// By label: of wnids.txt those that are there, of words.txt each line.
std::vector<std::string> read_classes(const fs::path& root, bool by_words) {
  check_input_folder(root.string(), "Tiny-ImageNet, unpacked");
  const auto file = root / (by_words ? "words.txt" : "wnids.txt");
  std::vector<std::string> all, there;
  for (const auto& fields : read_table(file)) {
    const auto& wnid = fields[0];
    if (wnid.empty() && !by_words) continue;  // a line is a class there, whatever it holds
    if (!wnid.empty()) check_class(file, wnid);
    all.push_back(wnid);
    if (!by_words && is_folder(root / "train" / wnid)) there.push_back(wnid);
  }
  const auto& classes = there.empty() ? all : there;
  if (classes.empty()) {
    fail<DataError>("{}: no classes; expected one a line", printable(file.string()));
  }
  return classes;
}

std::vector<std::string> names_of(const fs::path& root, const std::vector<std::string>& classes) {
  std::vector<std::string> names = classes;
  std::error_code error;
  if (!is_there(root / "words.txt")) return names;
  std::map<std::string, std::string> words;
  for (auto& fields : read_table(root / "words.txt")) {
    if (fields.size() == 2) words[fields[0]] = printable(fields[1]);
  }
  for (auto& name : names) {
    if (const auto found = words.find(name); found != words.end()) name = found->second;
  }
  return names;
}

void add_train(const fs::path& root, const std::vector<std::string>& classes, bool by_words,
               ImageFiles& files) {
  UnreadFiles unread;
  for (size_t label = 0; label < classes.size(); ++label) {
    const bool may_lack = by_words && !is_folder(root / "train" / classes[label]);
    if (may_lack || classes[label].empty()) continue;
    const auto folder = fs::path("train") / classes[label] / "images";
    const auto names = list_image_files((root / folder).string(), unread);
    if (names.empty()) {
      fail<DataError>("{}: the class has no image; add some or remove it from wnids.txt",
                      printable((root / folder).string()));
    }
    for (const auto& name : names) {
      files.images.add((folder / name).string());
      files.labels.push_back(static_cast<int64_t>(label));
    }
  }
  unread.warn((root / "train").string(), image_kinds());
  if (files.images.size() == 0) {
    fail<DataError>("{}: no image of a class that there is", printable((root / "train").string()));
  }
}

void add_val(const fs::path& root, const std::vector<std::string>& classes, ImageFiles& files) {
  const auto annotations = root / "val" / "val_annotations.txt";
  std::map<std::string, std::string> class_of;  // by name of the file
  for (auto& fields : read_table(annotations)) {
    if (fields.size() < 2) continue;
    if (!class_of.emplace(fields[0], fields[1]).second) {
      fail<DataError>("{}: \"{}\" stands there twice", printable(annotations.string()),
                      printable(fields[0]));
    }
  }
  std::map<std::string, int64_t> label_of;
  for (size_t i = 0; i < classes.size(); ++i) {
    label_of.emplace(classes[i], static_cast<int64_t>(i));
  }
  const auto folder = fs::path("val") / "images";
  int64_t others = 0;
  UnreadFiles unread;
  for (const auto& name : list_image_files((root / folder).string(), unread)) {
    const auto found = class_of.find(name);
    if (found == class_of.end()) {
      fail<DataError>("{}: no line for the image {}", printable(annotations.string()),
                      printable(name));
    }
    const auto label = label_of.find(found->second);
    if (label == label_of.end()) {
      ++others;
      continue;
    }
    files.images.add((folder / name).string());
    files.labels.push_back(label->second);
  }
  unread.warn((root / folder).string(), image_kinds());
  if (others > 0) {
    log_warning(
        fmt::format("{}: {} images are of classes that train does not have and are left out",
                    printable((root / folder).string()), others));
  }
  if (files.images.size() == 0) {
    fail<DataError>("{}: no image of a class that there is", printable((root / folder).string()));
  }
}

}  // namespace

std::shared_ptr<const Dataset> build_tiny_imagenet_dataset(const TinyImagenetConfig& config) {
  const fs::path root = config.path;
  const bool by_words = config.classes == "words";
  const auto classes = read_classes(root, by_words);
  const auto count = static_cast<int64_t>(classes.size());
  if (config.num_classes && *config.num_classes < count) {
    fail<ConfigError>("num_classes={}, but {}.txt has {} classes; expected at least as many",
                      *config.num_classes, config.classes, count);
  }
  ImageFiles files;
  files.root = config.path;
  files.class_names = names_of(root, classes);
  files.num_classes = config.num_classes.value_or(count);
  for (auto i = count; i < files.num_classes; ++i) {
    files.class_names.push_back(fmt::format("unused {}", i));
  }
  if (config.split == "train") {
    add_train(root, classes, by_words, files);
  } else {
    add_val(root, classes, files);
  }
  return std::make_shared<ImageFilesDataset>(std::move(files));
}

}  // namespace fovea::data
