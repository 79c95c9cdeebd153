#include "apps/fovea/served_targets.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"

namespace fovea::app {
namespace {

bool is_of_a_name(char c) { return is_letter_or_digit(c) || c == '_' || c == '-' || c == '.'; }

std::string name_of(const std::string& target) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path(target);
  if (fs::exists(path, error)) path = fs::canonical(path, error);  // of "." too
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.filename().string();
  name = name.substr(0, name.find('@'));  // behind it: the revision of a repository
  for (const std::string_view ending : {".safetensors", ".yaml", ".yml", ".pth", ".pt", ".bin"}) {
    if (name.ends_with(ending)) name.erase(name.size() - ending.size());
  }
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_of_a_name(c); }, '_');
  return name;
}

}  // namespace

ServedTarget served_target(const std::string& word) {
  std::error_code error;
  const auto equals = word.rfind('=');
  if (equals == std::string::npos || std::filesystem::exists(word, error)) {
    return {.target = word, .name = name_of(word)};
  }
  ServedTarget result{.target = word.substr(0, equals), .name = word.substr(equals + 1)};
  const bool is_name =
      !result.name.empty() && std::all_of(result.name.begin(), result.name.end(), is_of_a_name);
  if (is_name && !result.target.empty()) return result;
  fail<ConfigError>("{}: expected TARGET or TARGET=NAME, with a name of letters, digits, _ - and .",
                    printable(word));
}

}  // namespace fovea::app
