// Every model case as a user has it: a folder with its recipe and its data.
//
//   tiny_recipes FOLDER   writes FOLDER/NAME/recipe.yaml for each and prints their names
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "fovea/config/config.h"
#include "tests/train/model_cases.h"

namespace fovea::train::testing {
namespace {

namespace fs = std::filesystem;

// Paths in the recipe become ones beside it.
void write_case(const ModelCase& model_case, const fs::path& to) {
  const Folder made;
  auto config = model_case.config(made);
  config.run.dir = made.file("run");
  auto text = dump_config(config);
  const auto prefix = made.path() + "/";
  for (auto at = text.find(prefix); at != text.npos; at = text.find(prefix, at)) {
    text.erase(at, prefix.size());
  }
  for (auto at = text.find(made.path()); at != text.npos; at = text.find(made.path(), at)) {
    text.replace(at, made.path().size(), ".");
  }
  fs::create_directories(to);
  fs::copy(made.path(), to, fs::copy_options::recursive);
  std::ofstream(to / "recipe.yaml") << text;
  std::cout << model_case.name << "\n";
}

}  // namespace
}  // namespace fovea::train::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tiny_recipes FOLDER\n";
    return 2;
  }
  for (const auto& model_case : fovea::train::testing::model_cases()) {
    fovea::train::testing::write_case(model_case, std::filesystem::path(argv[1]) / model_case.name);
  }
}
