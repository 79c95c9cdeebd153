// Lists that a shell makes by itself.
#pragma once

#include <optional>
#include <string>

#include "fovea/recipe_import/shell.h"

namespace fovea::recipe_import {

constexpr size_t kMaxShellTurns = 1'000;

// `seq 3`, `seq 1 3`, `seq 1 2 9`.
std::optional<ShellWords> words_of_seq(const std::string& command);
// {1..3} and {a,b} that are a word by themselves.
std::optional<ShellWords> words_of_braces(const std::string& word);

}  // namespace fovea::recipe_import
