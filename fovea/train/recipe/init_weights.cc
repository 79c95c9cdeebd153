#include "fovea/train/recipe/init_weights.h"

#include <fmt/ranges.h>

#include "fovea/core/log.h"
#include "fovea/train/recipe/weights_metadata.h"

namespace fovea::train {

models::LoadOptions load_options(const InitConfig& config) {
  return {.resize_pos_embed = config.resize_pos_embed,
          .skip_head = config.skip_head,
          .adapt_in_chans = config.adapt_in_chans,
          .part = models::weights_part_from_name(config.part)};
}

void warn_of_other_model(const std::string& path, const models::ModelConfig& model) {
  const auto differences = differences_of_weights(path, model);
  if (differences.empty()) return;
  log_warning(fmt::format("{}: its weights are of a model that computes otherwise: {}", path,
                          fmt::join(differences, "; ")));
}

}  // namespace fovea::train
