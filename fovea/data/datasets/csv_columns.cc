#include "fovea/data/datasets/csv_columns.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/core/text.h"
#include "fovea/data/labels.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

// The words that lists of other programs have in their first line, the usual one first.
constexpr std::array<std::string_view, 15> kPathWords = {
    "path",      "file",       "filename",       "file_name",     "filepath",
    "file_path", "image",      "images",         "img",           "image_path",
    "img_path",  "image_file", "image_filename", "relative_path", "volume"};
constexpr std::array<std::string_view, 13> kLabelWords = {
    "label",       "labels",      "class",  "classes",  "class_id",    "class_name", "classname",
    "class_label", "class_index", "target", "category", "category_id", "label_id"};
constexpr std::array<std::string_view, 8> kMaskWords = {
    "mask", "masks",     "mask_path", "mask_file", "segmentation", "segmentation_path",
    "seg",  "label_path"};

std::string as_word(std::string_view field) {
  std::string word = lowered(trimmed(field));
  for (char& c : word) c = c == ' ' || c == '-' ? '_' : c;
  return word;
}

// "scans/a.nii.gz", but not "image" or "score1.0": a short ending with a letter.
bool looks_like_file(std::string_view field) {
  const std::string ending = lower_ending(trimmed(field));
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return ending.size() >= 2 && ending.size() <= 6 &&
         std::any_of(ending.begin() + 1, ending.end(), is_letter) &&
         std::all_of(ending.begin() + 1, ending.end(),
                     [&](char c) { return is_letter(c) || is_digit(c); });
}

class ColumnChoice {
 public:
  ColumnChoice(const std::vector<std::string>& first, const std::string& place)
      : first_(first), place_(place) {
    for (const std::string& field : first) words_.push_back(as_word(field));
  }

  // The column that one of `words` names; words[0] goes before the others.
  std::optional<size_t> column_of(std::span<const std::string_view> words) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] == words[0]) return i;
      if (std::find(words.begin(), words.end(), words_[i]) != words.end()) found.push_back(i);
    }
    if (found.size() > 1) {
      fail<DataError>("{}: both \"{}\" and \"{}\" can be the {}; name the one that is \"{}\"",
                      place_, printable(first_[found[0]]), printable(first_[found[1]]), words[0],
                      words[0]);
    }
    return found.empty() ? std::nullopt : std::optional(found[0]);
  }

  bool is_any_a_file() const { return std::any_of(first_.begin(), first_.end(), looks_like_file); }

  CsvColumns header(size_t path, std::optional<size_t> label, std::optional<size_t> mask) const {
    CsvColumns columns{.path = path,
                       .label = label.value_or(first_.size()),
                       .mask = mask.value_or(first_.size()),
                       .has_header = true};
    const auto is_usual = [&](std::optional<size_t> column, std::string_view word) {
      return !column || first_[*column] == word;
    };
    if (is_usual(path, "path") && is_usual(label, "label") && is_usual(mask, "mask"))
      return columns;
    columns.note = fmt::format("{}: the first line names the columns: path is \"{}\"", place_,
                               printable(first_[path]));
    if (label) columns.note += fmt::format(", label is \"{}\"", printable(first_[*label]));
    if (mask) columns.note += fmt::format(", mask is \"{}\"", printable(first_[*mask]));
    return columns;
  }

  // A header whose words say nothing, or not enough: the columns are taken in their usual order.
  CsvColumns plain_header() const {
    const size_t count = first_.size();
    return header(0, count > 1 ? std::optional<size_t>(1) : std::nullopt,
                  count > 2 ? std::optional<size_t>(2) : std::nullopt);
  }

  [[noreturn]] void fail_as_ambiguous(const char* why) const {
    fail<DataError>(
        "{}: \"{}\" {}; expected columns that are named path, label and mask, or a first line of "
        "data: name the column of the files \"path\", or write ./ before the file's name",
        place_, printable(fmt::format("{}", fmt::join(first_, ","))), why);
  }

 private:
  const std::vector<std::string>& first_;
  const std::string& place_;
  std::vector<std::string> words_;
};

}  // namespace

CsvColumns choose_csv_columns(const std::vector<std::string>& first,
                              const std::vector<std::string>& second, const FileExists& exists,
                              const std::string& place) {
  const ColumnChoice choice(first, place);
  if (choice.is_any_a_file()) return {};
  const auto path = choice.column_of(kPathWords);
  const auto label = choice.column_of(kLabelWords), mask = choice.column_of(kMaskWords);
  const bool is_there = exists && !first[0].empty() && exists(first[0]);
  if (path) {
    if (is_there) choice.fail_as_ambiguous("names columns, but is a file too");
    return choice.header(*path, label, mask);
  }
  if (is_there) return {};
  if (label || mask) {
    const bool is_in_order = first.size() <= 3 && label.value_or(1) == 1 && mask.value_or(2) == 2;
    if (is_in_order) return choice.plain_header();
    choice.fail_as_ambiguous("names columns, but none of them as the path");
  }
  const bool is_header =
      exists && first.size() <= 3 && !second.empty() && !second[0].empty() && exists(second[0]);
  return is_header ? choice.plain_header() : CsvColumns{};
}

}  // namespace fovea::data
