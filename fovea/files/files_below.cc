#include "fovea/files/files_below.h"

#include <algorithm>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/files/file_endings.h"

namespace fovea {

namespace fs = std::filesystem;

std::vector<std::string> list_files_below(
    const std::string& folder, const std::function<bool(const std::string& name)>& is_read,
    UnreadFiles& unread) {
  const fs::path root = folder;
  const fs::path own_name = root.has_filename() ? root.filename() : root.parent_path().filename();
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored);
    if (name[0] == '.') {
      if (is_folder) entry.disable_recursion_pending();
      continue;
    }
    const std::string path = entry->path().lexically_relative(root).string();
    if (is_folder) {
      if (entry->is_symlink(ignored))
        unread.add_kind("links to folders", (own_name / path).string());
    } else if (is_read(name)) {
      paths.push_back(path);
    } else if (!is_data_of_header(entry->path().string())) {
      unread.add((own_name / path).string());
    }
  }
  if (error) {
    fail<DataError>("{}: cannot list the folder ({}); check the path and its permissions",
                    printable(folder), error.message());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace fovea
