#include "fovea/models/registry.h"

#include "fovea/core/config_describe.h"
#include "fovea/core/error.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/models/mae.h"
#include "fovea/models/sap.h"
#include "fovea/models/t2t_vit.h"
#include "fovea/models/unetr.h"
#include "fovea/models/vit.h"

namespace fovea::models {
namespace {

ModelPtr build(const VitConfig& config, at::Device device) {
  return std::make_shared<Vit>(config, device);
}

ModelPtr build(const T2tVitConfig& config, at::Device device) {
  return std::make_shared<T2tVit>(config, device);
}

ModelPtr build(const MaeConfig& config, at::Device device) {
  return std::make_shared<Mae>(config, device);
}

ModelPtr build(const UnetrConfig& config, at::Device device) {
  return std::make_shared<Unetr>(config, device);
}

ModelPtr build(const SapConfig& config, at::Device device) {
  return std::make_shared<Sap>(config, device);
}

ModelPtr build(const DiffusionVitConfig& config, at::Device device) {
  return std::make_shared<DiffusionVit>(config, device);
}

}  // namespace

ModelPtr build_model(const ModelConfig& config, at::Device device) {
  return config.visit_value([&](const auto& chosen) { return build(chosen, device); });
}

std::vector<std::string> list_models() {
  auto names = VitConfig::preset_names();
  for (auto& name : T2tVitConfig::preset_names()) names.push_back(std::move(name));
  return names;
}

std::string hint_for_model(const std::string& unknown) {
  const std::string question = detail::did_you_mean(unknown, list_models());
  return question.empty() ? "`fovea list models` shows the names" : question;
}

ModelConfig named_config(const std::string& preset) {
  VitConfig vit;
  if (vit.apply_preset(preset)) return {vit};
  T2tVitConfig t2t_vit;
  if (t2t_vit.apply_preset(preset)) return {t2t_vit};
  fail<ConfigError>("no model is named '{}'; {}", preset, hint_for_model(preset));
}

ModelPtr build_named(const std::string& preset, at::Device device) {
  return build_model(named_config(preset), device);
}

}  // namespace fovea::models
