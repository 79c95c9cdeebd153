#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/data/datasets/file_list_text.h"
#include "fovea/data/datasets/volume_files.h"
#include "fovea/data/labels.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/glob.h"
#include "fovea/files/unread_files.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxEntryListBytes = uint64_t{1} << 30;  // ten million paths

using Files = std::map<std::vector<std::string>, std::string>;  // by what the stars stand for

Files find_files(const VolumeFilesConfig& config, const std::string& pattern) {
  Files files;
  for (const auto& found : glob(config.path, pattern)) {
    const auto [entry, is_new] = files.emplace(found.stars, found.path);
    if (!is_new) {
      fail<DataError>("{} and {}: both match {} alike; give a pattern that tells them apart",
                      printable(entry->second), printable(found.path), pattern);
    }
  }
  if (files.empty()) {
    fail<DataError>("{}: no file matches {}; check path and the pattern", printable(config.path),
                    pattern);
  }
  return files;
}

const std::string& partner_of(const std::vector<std::string>& stars, const std::string& image,
                              const Files& files, const std::string& pattern) {
  const auto found = files.find(stars);
  if (found == files.end()) {
    fail<DataError>("{}: no file of {} has \"{}\" in the place of *; each image needs its partner",
                    printable(image), pattern,
                    printable(fmt::format("{}", fmt::join(stars, ", "))));
  }
  return found->second;
}

std::vector<VolumeEntry> entries_of_patterns(const VolumeFilesConfig& config,
                                             const std::vector<std::string>& patterns) {
  std::vector<Files> images;
  for (const std::string& pattern : patterns) images.push_back(find_files(config, pattern));
  const Files masks = config.masks.empty() ? Files() : find_files(config, config.masks);
  std::vector<VolumeEntry> entries;
  for (const auto& [stars, path] : images.front()) {
    VolumeEntry entry;
    for (size_t i = 0; i < patterns.size(); ++i)
      entry.images.push_back(partner_of(stars, path, images[i], patterns[i]));
    if (!config.masks.empty()) entry.mask = partner_of(stars, path, masks, config.masks);
    entries.push_back(std::move(entry));
  }
  for (size_t i = 1; i < patterns.size(); ++i) {
    if (images[i].size() != entries.size()) {
      fail<DataError>("{}: {} files match {}, but {} match {}; each needs its partner",
                      printable(config.path), images[i].size(), patterns[i], entries.size(),
                      patterns[0]);
    }
  }
  return entries;
}

int64_t label_of(const FileListRow& row, const VolumeFilesConfig& config, const std::string& list) {
  const std::string& text = *row.label;
  const auto named = std::find(config.class_names.begin(), config.class_names.end(), text);
  if (named != config.class_names.end()) return named - config.class_names.begin();
  const auto label = integer_in(text);
  if (!label || *label < 0 || *label >= kMaxClasses) {
    fail<DataError>("{}:{}: label \"{}\"; expected a number from 0 to {}, or one of class_names",
                    list, row.line, printable(text), kMaxClasses - 1);
  }
  return *label;
}

std::vector<VolumeEntry> entries_of_list(const VolumeFilesConfig& config) {
  const fs::path path = fs::path(config.path) / config.list;
  const std::string name = printable(path.string());
  const auto rows =
      read_file_list(path.string(), kMaxEntryListBytes, [&](const std::string& files) {
        std::error_code unknown;
        return fs::exists(fs::path(config.path) / split_modalities(files).front(), unknown);
      });
  std::vector<VolumeEntry> entries;
  const auto is_given = [](const std::optional<std::string>& field) {
    return field && !field->empty();
  };
  for (const FileListRow& row : rows) {
    VolumeEntry entry;
    for (const std::string& file : split_modalities(row.path)) {
      entry.images.push_back((fs::path(config.path) / file).string());
    }
    if (is_given(row.mask)) entry.mask = (fs::path(config.path) / *row.mask).string();
    if (is_given(row.label)) entry.label = label_of(row, config, name);
    if (!entries.empty()) {
      const VolumeEntry& first = entries.front();
      if (entry.images.size() != first.images.size() || entry.mask.empty() != first.mask.empty() ||
          (entry.label < 0) != (first.label < 0)) {
        fail<DataError>(
            "{}:{}: {} image(s), {} mask, {} label; expected what the first line has: {}, {}, {}",
            name, row.line, entry.images.size(), entry.mask.empty() ? "no" : "a",
            entry.label < 0 ? "no" : "a", first.images.size(), first.mask.empty() ? "no" : "a",
            first.label < 0 ? "no" : "a");
      }
    }
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) fail<DataError>("{}: the list is empty", name);
  return entries;
}

}  // namespace

std::vector<std::string> split_modalities(const std::string& paths) {
  std::vector<std::string> split;
  for (size_t start = 0; start <= paths.size();) {
    const size_t end = std::min(paths.find(';', start), paths.size());
    split.push_back(paths.substr(start, end - start));
    start = end + 1;
  }
  return split;
}

void VolumeFilesConfig::validate(ConfigIssues& issues) const {
  if (!list.empty() && (!images.empty() || !masks.empty()))
    issues.add("list", {"images", "masks"},
               "given together with images or masks; give one of the two");
  const auto count_stars = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '*');
  };
  for (const std::string& image : images) {
    if (count_stars(image) != count_stars(images.front()))
      issues.add("images", fmt::format("\"{}\" and \"{}\" differ in their number of *", image,
                                       images.front()));
  }
  if (!masks.empty() && !images.empty() && count_stars(masks) != count_stars(images.front()))
    issues.add("masks", {"images"},
               fmt::format("\"{}\" and \"{}\" differ in their number of *", masks, images.front()));
  if (!masks.empty() && !num_classes && class_names.empty())
    issues.add("num_classes", {"masks", "class_names"},
               "missing; masks need num_classes or class_names");
  check_class_count(num_classes, class_names, issues);
}

std::vector<VolumeEntry> find_volume_entries(const VolumeFilesConfig& config,
                                             const std::string& default_image) {
  check_input_folder(config.path, "a folder with volumes");
  if (!config.list.empty()) return entries_of_list(config);
  if (!config.images.empty()) return entries_of_patterns(config, config.images);
  // What the recipe does not name, it cannot have left out on purpose.
  std::set<std::string> read;
  for (const auto& found : glob(config.path, default_image)) read.insert(found.path);
  if (!config.masks.empty()) {
    for (const auto& found : glob(config.path, config.masks)) read.insert(found.path);
  }
  warn_of_unread_files(config.path, default_image, [&](const std::string& name) {
    return read.contains((fs::path(config.path) / name).string());
  });
  return entries_of_patterns(config, {default_image});
}

}  // namespace fovea::data
