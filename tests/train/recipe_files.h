// The recipes that stand in recipes/.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace fovea::train::testing {

inline std::set<std::string> recipe_files() {
  std::set<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(FOVEA_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() == ".yaml") files.insert(entry.path().string());
  }
  return files;
}

}  // namespace fovea::train::testing
