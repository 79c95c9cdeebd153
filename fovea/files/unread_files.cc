#include "fovea/files/unread_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "fovea/core/log.h"
#include "fovea/files/file_endings.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 24> kClutterEndings = {
    ".txt", ".csv",   ".tsv",  ".json", ".jsonl", ".md",  ".rst",    ".yaml",
    ".yml", ".xml",   ".html", ".log",  ".pdf",   ".ini", ".db",     ".py",
    ".sh",  ".ipynb", ".toml", ".cfg",  ".idx",   ".md5", ".sha256", ".sha1"};
constexpr size_t kMostKinds = 8;  // in a message

std::string_view base_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

bool is_clutter(std::string_view name) {
  name = base_of(name);
  if (name.starts_with('.') || name.starts_with("README") || name.starts_with("LICENSE"))
    return true;
  const std::string ending = lower_ending(name);
  return std::find(kClutterEndings.begin(), kClutterEndings.end(), ending) != kClutterEndings.end();
}

bool is_data_of_header(const std::string& path) {
  fs::path stem = path;
  if (lower_ending(path) == ".gz") stem.replace_extension();
  const std::string ending = lower_ending(stem.native());
  if (ending != ".raw" && ending != ".zraw" && stem == path) return false;
  std::error_code unknown;
  return fs::exists(fs::path(stem).replace_extension(".mhd"), unknown) ||
         fs::exists(fs::path(stem).replace_extension(".nhdr"), unknown);
}

void UnreadFiles::add(const std::string& path) {
  if (is_clutter(path)) return;
  const std::string ending = lower_ending(base_of(path));
  add_kind(ending.empty() ? "no ending" : ending, path);
}

void UnreadFiles::add_kind(const std::string& kind, const std::string& path) {
  if (count_++ == 0) first_ = path;
  ++kinds_[kind];
}

std::string UnreadFiles::text() const {
  if (count_ == 0) return {};
  std::vector<std::pair<int64_t, std::string_view>> sorted;
  for (const auto& [kind, count] : kinds_) sorted.emplace_back(-count, kind);
  std::sort(sorted.begin(), sorted.end());
  std::string kinds;
  for (size_t i = 0; i < std::min(sorted.size(), kMostKinds); ++i) {
    kinds += fmt::format("{}{} {}", i == 0 ? "" : ", ", printable_start(sorted[i].second, 40),
                         -sorted[i].first);
  }
  if (sorted.size() > kMostKinds) kinds += ", ...";
  return fmt::format("{} file{} not read ({}), the first is {}", count_,
                     count_ == 1 ? " is" : "s are", kinds, printable(first_));
}

void UnreadFiles::warn(const std::string& place, std::string_view expected) const {
  if (count_ == 0) return;
  log_warning(fmt::format("{}: {}; convert them to {}, or move them away", printable(place), text(),
                          expected));
}

void warn_of_unread_files(const std::string& folder, std::string_view expected,
                          const std::function<bool(const std::string& name)>& is_read) {
  UnreadFiles unread;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (entry->is_directory(ignored) || is_read(name)) continue;
    if (!is_data_of_header(entry->path().string())) unread.add(name);
  }
  unread.warn(folder, expected);
}

}  // namespace fovea
