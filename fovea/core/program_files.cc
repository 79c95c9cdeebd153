#include "fovea/core/program_files.h"

#include <system_error>

#include "fovea/core/environment.h"

namespace fovea {

namespace fs = std::filesystem;

fs::path program_path() { return fs::read_symlink("/proc/self/exe"); }

std::optional<fs::path> find_upwards(fs::path folder,
                                     std::initializer_list<std::string_view> places,
                                     int num_folders) {
  for (int i = 0; i < num_folders && !folder.empty(); ++i) {
    for (const auto place : places) {
      std::error_code error;
      if (fs::exists(folder / place, error)) return folder / place;
    }
    if (!folder.has_relative_path()) break;  // the root
    folder = folder.parent_path();
  }
  return std::nullopt;
}

std::optional<fs::path> find_near_program(std::initializer_list<std::string_view> places,
                                          int num_folders) {
  std::error_code error;
  return find_upwards(fs::read_symlink("/proc/self/exe", error).parent_path(), places, num_folders);
}

std::string python_program() { return environment_variable("FOVEA_PYTHON", "python3"); }

}  // namespace fovea
