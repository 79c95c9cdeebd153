#include "fovea/core/program_files.h"

#include <dlfcn.h>

#include <system_error>

#include "fovea/core/environment.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

// What this code is in: the program, or a library that another one, such as Python, has loaded.
fs::path own_file() {
  Dl_info info{};
  const bool is_found = dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0;
  if (is_found && std::string_view(info.dli_fname).ends_with(".so")) return info.dli_fname;
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

}  // namespace

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
  return find_upwards(own_file().parent_path(), places, num_folders);
}

std::string python_program() { return environment_variable("FOVEA_PYTHON", "python3"); }

}  // namespace fovea
