// A model of one's own, trained as a recipe says: own_model RECIPE|RUN_DIR [a.b=c ...]
#include <fmt/format.h>

#include "bag_of_patches.h"
#include "fovea/fovea.h"

int main(int argc, char** argv) try {
  if (argc < 2) fovea::fail<fovea::ConfigError>("expected a recipe: own_model RECIPE [a.b=c ...]");
  fovea::models::register_model<examples::BagOfPatches, examples::BagOfPatchesConfig>();
  const auto config = fovea::train::load_any_config(argv[1], {argv + 2, argv + argc});
  const auto result = fovea::train::Trainer(config).fit();
  fmt::print("{}: {} steps, loss {}\n", result.run_dir, result.step, result.last_eval.at("loss"));
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
