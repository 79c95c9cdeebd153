#include "fovea/files/glob.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/file_endings.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string_view text, char divider) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = std::min(text.find(divider), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// What the stars of `literals` joined by * stand for in `name`; linear in its length.
std::optional<std::vector<std::string>> match(std::string_view name,
                                              const std::vector<std::string>& literals) {
  if (name.starts_with('.') || !name.starts_with(literals.front())) return std::nullopt;
  std::vector<std::string> stars;
  name.remove_prefix(literals.front().size());
  for (size_t i = 1; i < literals.size(); ++i) {
    const bool is_last = i + 1 == literals.size();
    if (is_last && !name.ends_with(literals[i])) return std::nullopt;
    const size_t at = is_last ? name.size() - literals[i].size() : name.find(literals[i]);
    if (at == std::string_view::npos) return std::nullopt;
    stars.emplace_back(name.substr(0, at));
    name.remove_prefix(at + literals[i].size());
  }
  return stars;
}

void find(const fs::path& folder, const std::vector<std::string>& parts, size_t index,
          const std::vector<std::string>& stars, std::vector<GlobMatch>& found) {
  if (index == parts.size()) {
    found.push_back({folder.string(), stars});
    return;
  }
  const auto literals = split(parts[index], '*');
  if (literals.size() == 1) {
    if (is_there(folder / parts[index])) {
      find(folder / parts[index], parts, index + 1, stars, found);
    }
    return;
  }
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto more = match(entry->path().filename().string(), literals);
    const bool is_last = index + 1 == parts.size();
    if (!more || (!is_last && !entry->is_directory())) continue;
    auto all = stars;
    all.insert(all.end(), more->begin(), more->end());
    find(entry->path(), parts, index + 1, all, found);
  }
  if (error && error != std::errc::not_a_directory) {
    fail<DataError>("{}: cannot list the folder ({}); check the path and its permissions",
                    printable(folder.string()), error.message());
  }
}

}  // namespace

std::vector<GlobMatch> glob(const std::string& root, const std::string& pattern) {
  const auto parts = split(pattern, '/');
  for (const std::string& part : parts) {
    if (part.empty() || part == "..") {
      fail<DataError>("{}: a pattern is looked up below path; expected names divided by /",
                      pattern);
    }
  }
  std::vector<GlobMatch> found;
  find(root, parts, 0, {}, found);
  std::sort(found.begin(), found.end(),
            [](const GlobMatch& a, const GlobMatch& b) { return a.path < b.path; });
  return found;
}

}  // namespace fovea
