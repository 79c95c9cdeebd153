#include "fovea/recipe_import/gin_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/recipe_import/gin.h"

namespace fovea::recipe_import {
namespace {

namespace fs = std::filesystem;

// `folder` and all around it, the nearest first.
std::vector<fs::path> folders_around(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (auto at = fs::absolute(folder, error); !error; at = at.parent_path()) {
    folders.push_back(at);
    if (at == at.parent_path()) break;
  }
  return folders;
}

}  // namespace

ConfigNode read_gin_file(const std::string& file, const std::string& text,
                         const std::vector<std::string>& search_paths) {
  const auto folder = fs::path(file).parent_path();
  std::vector<fs::path> beside = {folder};
  return parse_gin(text, file, [&](const std::string& name) {
    std::vector<fs::path> places = {name};
    for (const auto& path : search_paths) places.push_back(fs::path(path) / name);
    for (const auto& path : folders_around(folder)) places.push_back(path / name);
    for (const auto& path : beside) places.push_back(path / fs::path(name).filename());
    const auto found = std::find_if(places.begin(), places.end(),
                                    [](const fs::path& place) { return is_there(place.string()); });
    if (found == places.end()) {
      fail<ConfigError>(
          "{}: it includes {}, which is neither in the working folder, in the search paths [{}], "
          "around the file nor beside it; --gin-search-paths DIR names the folder from which on it "
          "is {}",
          file, printable_start(name), fmt::join(search_paths, ", "), printable_start(name));
    }
    beside.push_back(found->parent_path());
    return read_file(found->string(), kMaxConfigBytes);
  });
}

}  // namespace fovea::recipe_import
