#include "fovea/models/registry.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>

#include "fovea/core/error.h"
#include "fovea/core/memory.h"
#include "fovea/core/nearest.h"
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

ModelPtr build(const OwnModelConfig& config, at::Device device) {
  return config.value().build(device);
}

ModelPtr build_any(const ModelConfig& config, at::Device device) {
  return config.visit_value([&](const auto& chosen) { return build(chosen, device); });
}

// The parameters of the model, which takes no memory on the meta device. Throws ConfigError where
// they are more than can be counted.
int64_t count_parameters(const ModelConfig& config) {
  int64_t count = 0;
  try {
    for (const auto& parameter : build_any(config, at::kMeta)->parameters())
      if (__builtin_add_overflow(count, parameter.numel(), &count)) throw std::bad_alloc();
  } catch (const c10::Error&) {  // sizes whose product overflows
    count = -1;
  } catch (const std::bad_alloc&) {
    count = -1;
  }
  if (count >= 0) return count;
  fail<ConfigError>("model: more parameters than can be counted; expected smaller sizes");
}

// Before anything is taken of it: the system ends a process that fills its memory without a word.
void check_fits_machine(const ModelConfig& config) {
  const double bytes = 4.0 * static_cast<double>(count_parameters(config));
  const auto memory = static_cast<double>(usable_memory_bytes());
  if (bytes <= memory) return;
  fail<ConfigError>(
      "model: {:.0f} parameters take {:.1f} GiB in float32, and this machine has {:.1f} GiB; "
      "expected a smaller embed_dim, depth, mlp_ratio, img_size or num_classes, or a larger "
      "machine",
      bytes / 4, bytes / (1 << 30), memory / (1 << 30));
}

}  // namespace

ModelPtr build_model(const ModelConfig& config, at::Device device) {
  if (!device.is_meta()) check_fits_machine(config);
  return build_any(config, device);
}

std::vector<std::string> list_models() {
  auto names = VitConfig::preset_names();
  for (auto& name : T2tVitConfig::preset_names()) names.push_back(std::move(name));
  return names;
}

bool is_model_name(const std::string& text) {
  const auto names = list_models();
  return std::find(names.begin(), names.end(), text) != names.end();
}

std::string hint_for_model(const std::string& unknown) {
  const std::string question = did_you_mean(unknown, list_models());
  return question.empty() ? "`fovea list models` shows the names" : question;
}

ModelConfig named_config(const std::string& preset) {
  VitConfig vit;
  if (vit.apply_preset(preset)) return {vit};
  T2tVitConfig t2t_vit;
  if (t2t_vit.apply_preset(preset)) return {t2t_vit};
  fail<ConfigError>("no model is named '{}'; {}", preset, hint_for_model(preset));
}

std::set<std::string> names_of_parameters(const ModelConfig& config) {
  std::set<std::string> names;
  for (const auto& item : build_any(config, at::kMeta)->named_parameters())
    names.insert(item.key());
  return names;
}

int64_t num_heads_of(const ModelConfig& config) {
  return std::visit(
      [](const auto& model) {
        if constexpr (requires { model.num_heads; }) {
          return model.num_heads;
        } else if constexpr (requires { model.encoder; }) {
          return model.encoder.vit.num_heads;
        } else {  // of a program's own model
          return int64_t{0};
        }
      },
      config.value);
}

ModelPtr build_named(const std::string& preset, at::Device device) {
  return build_model(named_config(preset), device);
}

}  // namespace fovea::models
