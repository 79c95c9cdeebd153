#include "fovea/train/recipe/int8_layers.h"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <mutex>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/nearest.h"
#include "fovea/kernels/linear/int8_products.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::train {
namespace {

void check_device(const nn::NamedLinears& layers) {
  if (layers.empty()) {
    fail<ConfigError>(
        "device.dtype: found int8, but the model has no linear layer in a transformer block, which "
        "are those that multiply 8-bit integers; set float32 or bfloat16");
  }
  const auto device = layers.front().second->weight.device();
  if (device.is_cpu()) return;
  fail<ConfigError>(
      "device.dtype: found int8 on {}; expected the CPU, where products of 8-bit integers are: set "
      "--device cpu, or bfloat16",
      device.str());
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void check_patterns(const nn::NamedLinears& layers, const std::vector<std::string>& skip) {
  std::vector<std::string> names;
  for (const auto& [name, layer] : layers) names.push_back(name);
  for (const auto& pattern : skip) {
    const auto is_it = [&](const std::string& name) { return matches(pattern, name); };
    if (std::any_of(names.begin(), names.end(), is_it)) continue;
    fail<ConfigError>(
        "int8.skip: '{}' matches no linear layer of a block; expected a name such as {}, or a "
        "pattern such as blocks.*.mlp.fc2{}",
        pattern, names.front(), or_did_you_mean(pattern, names));
  }
}

void check_finite(const std::string& name, const at::Tensor& weight) {
  if (at::isfinite(weight).all().item<bool>()) return;
  fail<CheckpointError>(
      "{}.weight: found values that are not finite, for which there are no 8-bit integers; "
      "expected "
      "numbers alone: take other weights, or leave the layer as it is (--int8-skip {})",
      name, name);
}

void say_where_slow() {
  static std::once_flag told;
  if (kernels::int8_form() != kernels::cpu::Int8Form::kPairs) return;
  std::call_once(told, [] {
    log_warning(
        "int8: this processor has no VNNI, or FOVEA_KERNELS leaves it out: codes are multiplied as "
        "16-bit integers, which is slow for int8, with AVX2 about 1.3 times as fast as float32");
  });
}

}  // namespace

std::optional<std::vector<std::string>> int8_skip_of(const InferenceOptions& options,
                                                     const TrainConfig* config) {
  const bool is_of_config = config && config->device.dtype == "int8";
  if (options.dtype == "int8" || (is_of_config && options.dtype == "float32")) {
    return config && options.int8_skip.empty() ? config->int8.skip : options.int8_skip;
  }
  if (options.int8_skip.empty()) return std::nullopt;
  fail<ConfigError>(
      "--int8-skip {}: layers are left out of int8, but the dtype is {}; expected "
      "--dtype int8 beside it, or neither",
      fmt::join(options.int8_skip, ","), options.dtype);
}

nn::NamedLinears int8_layers(nn::UnitImpl& model, const std::vector<std::string>& skip) {
  const auto layers = nn::block_linears(model);
  check_device(layers);
  check_patterns(layers, skip);
  nn::NamedLinears chosen;
  for (const auto& [name, layer] : layers) {
    const bool is_skipped =
        std::any_of(skip.begin(), skip.end(),
                    [name = name](const auto& pattern) { return matches(pattern, name); });
    if (!is_skipped) chosen.emplace_back(name, layer);
  }
  return chosen;
}

void use_int8(nn::UnitImpl& model, kernels::WeightCopies& copies,
              const std::vector<std::string>& skip) {
  const auto chosen = int8_layers(model, skip);
  for (const auto& [name, layer] : chosen) {
    check_finite(name, layer->weight);
    copies.use_int8(layer->weight, true);
  }
  log_info(fmt::format("int8: {} of {} linear layers of blocks multiply 8-bit integers ({})",
                       chosen.size(), nn::block_linears(model).size(),
                       kernels::cpu::int8_form_name(kernels::int8_form())));
  say_where_slow();
}

}  // namespace fovea::train
