#include "fovea/train/recipe/init_weights.h"

#include <fmt/ranges.h>

#include "fovea/core/log.h"
#include "fovea/models/timm_weights.h"
#include "fovea/train/recipe/weights_metadata.h"
#include "fovea/weights/read_weights.h"

namespace fovea::train {
namespace {

const models::VitConfig* pretrained_vit(const TrainConfig& config) {
  const auto* vit = config.model.get_if<models::VitConfig>();
  return vit != nullptr && vit->pretrained && config.init.weights.empty() ? vit : nullptr;
}

bool has_classes(const std::string& path, int64_t num_classes) {
  const auto file = weights::read_weights(path);
  for (const auto& [name, tensor] : file.tensors) {
    if (name == "head.weight" && tensor.dim() == 2) return tensor.size(0) == num_classes;
  }
  return num_classes == 0;
}

}  // namespace

std::string named_init_weights(const TrainConfig& config) {
  const auto* vit = pretrained_vit(config);
  return vit == nullptr ? config.init.weights : "hf-hub:" + models::timm_repository(vit->preset);
}

models::LoadOptions load_options(const TrainConfig& config, const std::string& path) {
  auto options = load_options(config.init);
  const auto* vit = pretrained_vit(config);
  if (vit != nullptr && !has_classes(path, vit->num_classes)) options.skip_head = true;
  return options;
}

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
