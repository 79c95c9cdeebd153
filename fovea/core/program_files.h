// What comes with the program: beside it where it was installed, or in the source or build tree
// around it.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace fovea {

// The running program's own file. Throws std::filesystem::filesystem_error where /proc is not
// there.
std::filesystem::path program_path();

// The first of `places` ("share/fovea/x.py") that is there in `folder`, or in one of the folders
// above it: the nearest folder first, num_folders at most. Nothing: none of them has any.
std::optional<std::filesystem::path> find_upwards(std::filesystem::path folder,
                                                  std::initializer_list<std::string_view> places,
                                                  int num_folders);
// From the folder of the program, or of the library with this code that another program has loaded,
// on; the source tree around build/release/apps/fovea is the fifth.
std::optional<std::filesystem::path> find_near_program(
    std::initializer_list<std::string_view> places, int num_folders = 5);

// What runs our Python scripts: $FOVEA_PYTHON, or python3.
std::string python_program();

}  // namespace fovea
