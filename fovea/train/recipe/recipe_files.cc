#include "fovea/train/recipe/recipe_files.h"

#include <algorithm>
#include <system_error>

#include "fovea/core/nearest.h"
#include "fovea/core/program_files.h"
#include "fovea/models/registry.h"
#include "fovea/models/timm_weights.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

bool is_path(const std::string& text) {
  return text.find('/') != text.npos || text.ends_with(".yaml") || text.ends_with(".yml");
}

// "mnist/vit" is meant as .../recipes/mnist/vit.yaml, and so is "vit.yaml": as many of the last
// names as `unknown` has are compared.
std::string last_names(const fs::path& path, std::ptrdiff_t count) {
  fs::path last;
  const auto size = std::distance(path.begin(), path.end());
  for (auto part = std::next(path.begin(), std::max<std::ptrdiff_t>(0, size - count));
       part != path.end(); ++part) {
    last /= *part;
  }
  return last.string();
}

std::string nearest_shipped(const std::string& unknown) {
  fs::path wanted = unknown;
  if (wanted.extension() != ".yaml") wanted += ".yaml";
  const auto count = std::distance(wanted.begin(), wanted.end());
  const auto recipes = shipped_recipes();
  std::vector<std::string> names;
  for (const auto& recipe : recipes) names.push_back(last_names(recipe, count));
  const auto found = std::find(names.begin(), names.end(), nearest(wanted.string(), names));
  return found == names.end() ? "" : recipes[static_cast<size_t>(found - names.begin())];
}

}  // namespace

std::optional<fs::path> recipes_folder() {
  constexpr int kAll = 1000;  // and a folder, not a file
  std::error_code error;
  if (auto here = find_upwards(fs::current_path(error), {"recipes/"}, 1)) return here;
  return find_near_program({"recipes/", "share/fovea/recipes/"}, kAll);
}

std::vector<std::string> shipped_recipes() {
  const auto folder = recipes_folder();
  if (!folder) return {};
  std::error_code error;
  const auto here = fs::current_path(error);
  std::vector<std::string> recipes;
  for (fs::recursive_directory_iterator entry(*folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != ".yaml") continue;
    recipes.push_back(entry->path().lexically_proximate(here).string());
  }
  std::sort(recipes.begin(), recipes.end());
  return recipes;
}

std::string or_nearest_recipe(const std::string& unknown) {
  const auto question = or_nearest_path(unknown);
  if (!question.empty()) return question;
  const auto recipe = nearest_shipped(unknown);
  return recipe.empty() ? "" : "; did you mean " + recipe + "?";
}

std::string or_nearest_target(const std::string& unknown) {
  const bool is_model = !nearest(unknown, models::list_models()).empty();
  const auto hint = is_model && !is_path(unknown) ? "" : or_nearest_recipe(unknown);
  if (!hint.empty()) return hint;
  // With a tag it is one of timm's weights that is meant.
  const auto weights = unknown.find('.') == unknown.npos
                           ? std::string()
                           : did_you_mean(unknown, models::list_timm_weights());
  return "; " + (weights.empty() ? models::hint_for_model(unknown) : weights);
}

}  // namespace fovea::train
