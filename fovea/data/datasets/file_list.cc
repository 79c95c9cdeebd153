#include "fovea/data/datasets/file_list.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "fovea/core/error.h"
#include "fovea/data/datasets/file_list_text.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/datasets/repeated_keys.h"
#include "fovea/data/labels.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr uint64_t kMaxListBytes = uint64_t{1} << 30;  // ten million paths

// Labels that are not all numbers are names: the classes are the different ones, sorted as bytes.
std::vector<std::string> names_in(const std::vector<FileListRow>& rows, const std::string& list) {
  if (std::all_of(rows.begin(), rows.end(),
                  [](const auto& row) { return integer_in(*row.label); })) {
    return {};
  }
  std::vector<std::string> names;
  for (const auto& row : rows) {
    if (printable(*row.label) != *row.label) {
      fail<DataError>("{}:{}: label \"{}\" is not plain UTF-8 text; correct it", list, row.line,
                      printable(*row.label));
    }
    names.push_back(*row.label);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class ListReader {
 public:
  explicit ListReader(const FileListConfig& config)
      : config_(config), name_(printable(config.path)) {
    files_.root = config.root.empty() ? std::filesystem::path(config.path).parent_path().string()
                                      : config.root;
    rows_ = read_file_list(config.path, kMaxListBytes, [&](const std::string& path) {
      std::error_code unknown;
      return std::filesystem::is_regular_file(std::filesystem::path(files_.root) / path, unknown);
    });
    if (rows_.empty()) fail<DataError>("{}: the list is empty", name_);
    files_.ignored_class = config.ignored_class;
    files_.class_names = config.class_names;
  }

  ImageFiles take() {
    const bool has_labels = rows_[0].label && !rows_[0].label->empty();
    const bool has_masks = rows_[0].mask && !rows_[0].mask->empty();
    if (config_.unique_paths) check_paths();
    for (const auto& row : rows_) {
      check_same(row, "label", row.label, has_labels);
      check_same(row, "mask", row.mask, has_masks);
      files_.images.add(row.path);
      if (has_masks) files_.masks.add(*row.mask);
    }
    files_.num_classes =
        config_.num_classes.value_or(static_cast<int64_t>(config_.class_names.size()));
    files_.labels.assign(rows_.size(), -1);
    if (has_labels) read_labels();
    if (has_masks && files_.num_classes == 0) {
      fail<ConfigError>("{}: a list with masks; give class_names or num_classes of the pixels",
                        name_);
    }
    return std::move(files_);
  }

 private:
  void check_paths() const {
    const auto path = [&](int64_t i) -> std::string_view {
      return rows_[static_cast<size_t>(i)].path;
    };
    const auto twice = find_repeated_key(static_cast<int64_t>(rows_.size()), path);
    if (!twice) return;
    fail<DataError>(
        "{}: lines {} and {} both name {} ({} of {} lines repeat an image); remove them, or set "
        "unique_paths: false",
        name_, rows_[static_cast<size_t>(twice->first)].line,
        rows_[static_cast<size_t>(twice->second)].line, printable(path(twice->second)),
        twice->count, rows_.size());
  }

  void check_same(const FileListRow& row, const char* what, const std::optional<std::string>& value,
                  bool is_wanted) const {
    const bool is_there = value && !value->empty();
    if (is_there == is_wanted) return;
    fail<DataError>("{}:{}: {} {}, but line {} has {}; give it for all images or for none", name_,
                    row.line, is_there ? "a" : "no", what, rows_[0].line,
                    is_wanted ? "one" : "none");
  }

  void read_labels() {
    if (files_.class_names.empty()) files_.class_names = names_in(rows_, name_);
    std::map<std::string_view, int64_t> numbers;
    for (size_t i = 0; i < files_.class_names.size(); ++i) {
      numbers[files_.class_names[i]] = static_cast<int64_t>(i);
    }
    if (files_.num_classes == 0) files_.num_classes = static_cast<int64_t>(numbers.size());
    int64_t largest = -1;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const std::string& text = *rows_[i].label;
      const auto named = numbers.find(text);
      const auto label = named != numbers.end() ? std::optional(named->second) : integer_in(text);
      if (!label) {
        fail<DataError>("{}:{}: label \"{}\" is none of class_names; correct it or add the name",
                        name_, rows_[i].line, printable(text));
      }
      const int64_t count = files_.num_classes > 0 ? files_.num_classes : kMaxClasses;
      if (*label < 0 || *label >= count) {
        fail<DataError>("{}:{}: label {}; expected 0 to {}", name_, rows_[i].line, *label,
                        count - 1);
      }
      files_.labels[i] = *label;
      largest = std::max(largest, *label);
    }
    if (files_.num_classes == 0) files_.num_classes = largest + 1;
  }

  const FileListConfig& config_;
  std::string name_;
  std::vector<FileListRow> rows_;
  ImageFiles files_;
};

}  // namespace

void FileListConfig::validate(ConfigIssues& issues) const {
  check_class_count(num_classes, class_names, issues);
}

std::shared_ptr<const Dataset> build_file_list_dataset(const FileListConfig& config) {
  return std::make_shared<ImageFilesDataset>(read_image_list(config));
}

ImageFiles read_image_list(const FileListConfig& config) { return ListReader(config).take(); }

}  // namespace fovea::data
