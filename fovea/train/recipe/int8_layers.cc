#include "fovea/train/recipe/int8_layers.h"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <mutex>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/core/nearest.h"
#include "fovea/files/checksum.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/int8_products.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/tasks/tensor_batch.h"

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

// Of a file without a layer, or with one too many.
[[noreturn]] void refuse_names(const Int8Ranges& ranges, const nn::NamedLinears& layers,
                               const std::string& found) {
  fail<ConfigError>(
      "{}: {}; found ranges of {} layers, expected those of this model's {}: measure them with "
      "`fovea calibrate` of the same model",
      ranges.source, found, ranges.layers.size(), layers.size());
}

// layers: all that can multiply 8-bit integers; chosen: those that shall.
void check_ranges(const Int8Ranges& ranges, const nn::NamedLinears& layers,
                  const nn::NamedLinears& chosen) {
  for (const auto& [name, range] : ranges.layers) {
    const auto known = std::find_if(layers.begin(), layers.end(),
                                    [&](const auto& layer) { return layer.first == name; });
    if (known == layers.end()) {
      refuse_names(ranges, layers, fmt::format("the model has no layer '{}'", name));
    }
    const auto found = int8_weight_checksum(known->second->weight);
    if (found == range.weight) continue;
    fail<ConfigError>(
        "{}: the ranges are of other weights: found {} as the checksum of {}.weight, expected {}; "
        "measure those of these weights with `fovea calibrate`",
        ranges.source, found, name, range.weight);
  }
  for (const auto& [name, layer] : chosen) {
    if (!ranges.layers.contains(name)) {
      refuse_names(ranges, layers, fmt::format("there is no range of '{}'", name));
    }
  }
}

[[noreturn]] void refuse_without_int8(const char* option, const std::string& value,
                                      const std::string& dtype) {
  fail<ConfigError>(
      "{} {}: it is of int8, but the dtype is {}; expected --dtype int8 beside it, or neither",
      option, value, dtype);
}

void say_where_slow() {
  static std::once_flag told;
  if (kernels::int8_form() != kernels::cpu::Int8Form::kPairs) return;
  std::call_once(told, [] {
    log_warning(
        "int8: this processor has neither VNNI nor AVX2, or FOVEA_KERNELS leaves them out: codes "
        "are multiplied as 16-bit integers, which is slow for int8");
  });
}

}  // namespace

std::optional<Int8Config> int8_of(const InferenceOptions& options, const TrainConfig* config) {
  const bool is_of_config = config && config->device.dtype == "int8";
  if (options.dtype != "int8" && !(is_of_config && options.dtype == "float32")) {
    if (!options.int8_skip.empty()) {
      refuse_without_int8("--int8-skip", fmt::to_string(fmt::join(options.int8_skip, ",")),
                          options.dtype);
    }
    if (!options.int8_ranges.empty()) {
      refuse_without_int8("--int8-ranges", options.int8_ranges, options.dtype);
    }
    if (options.int8_activations == "calibrated") {
      refuse_without_int8("--int8-activations", options.int8_activations, options.dtype);
    }
    if (options.int8_rest == "bfloat16") {
      refuse_without_int8("--int8-rest", options.int8_rest, options.dtype);
    }
    return std::nullopt;
  }
  auto int8 = config ? config->int8 : Int8Config();
  if (!options.int8_skip.empty()) int8.skip = options.int8_skip;
  if (!options.int8_ranges.empty()) {
    if (options.int8_activations == "dynamic") {
      fail<ConfigError>(
          "--int8-ranges {}: ranges of calibrated activations, but --int8-activations is dynamic; "
          "leave one of them out",
          options.int8_ranges);
    }
    int8.ranges = options.int8_ranges;
    int8.activations = "calibrated";
  }
  if (!options.int8_activations.empty()) int8.activations = options.int8_activations;
  if (!options.int8_rest.empty()) int8.rest = options.int8_rest;
  return int8;
}

at::ScalarType dtype_beside_int8(const Int8Config& int8) {
  if (int8.rest != "auto") return dtype_from_name(int8.rest, at::kCPU);
  return kernels::has_bfloat16_products(at::kCPU) ? at::kBFloat16 : at::kFloat;
}

std::optional<Int8Ranges> int8_ranges_of(const Int8Config& int8, const std::string& weights) {
  if (int8.activations != "calibrated") return std::nullopt;
  if (int8.ranges.empty() && weights.empty()) {
    fail<ConfigError>(
        "int8.activations: found calibrated, but no file of weights, beside which ranges would "
        "lie; expected --weights, or the file of ranges: --int8-ranges FILE");
  }
  const auto path = int8.ranges.empty() ? int8_ranges_beside(weights) : int8.ranges;
  if (!is_there(path)) {
    fail<ConfigError>(
        "int8.activations: found calibrated, but there is no {}; expected the ranges of the "
        "layers' inputs: `fovea calibrate`, with the same run or weights, measures them on images, "
        "once; or set dynamic, which needs none",
        path);
  }
  return read_int8_ranges(path);
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

void check_int8_weight(const std::string& layer, const at::Tensor& weight) {
  if (at::isfinite(weight).all().item<bool>()) return;
  fail<CheckpointError>(
      "{}.weight: found values that are not finite, for which there are no 8-bit integers; "
      "expected "
      "numbers alone: take other weights, or leave the layer as it is (--int8-skip {})",
      layer, layer);
}

std::string int8_weight_checksum(const at::Tensor& weight) {
  const auto values = weight.detach().to(at::kCPU, at::kFloat).contiguous();
  const auto* bytes = static_cast<const uint8_t*>(values.const_data_ptr());
  return fmt::format("{:016x}", checksum({bytes, values.nbytes()}));
}

void use_int8(nn::UnitImpl& model, kernels::WeightCopies& copies, const Int8Config& int8,
              const Int8Ranges* ranges) {
  const auto layers = nn::block_linears(model), chosen = int8_layers(model, int8.skip);
  for (const auto& [name, layer] : chosen) check_int8_weight(name, layer->weight);
  if (ranges) check_ranges(*ranges, layers, chosen);
  for (const auto& [name, layer] : layers) {
    const bool has_range = ranges && ranges->layers.contains(name);
    copies.hold_rows(layer->weight,
                     has_range ? std::optional(ranges->layers.at(name).inputs) : std::nullopt);
  }
  for (const auto& [name, layer] : chosen) copies.use_int8(layer->weight, true);
  auto text = fmt::format(
      "int8: {} of {} linear layers of blocks multiply 8-bit integers ({}), the rest "
      "is {}",
      chosen.size(), layers.size(), kernels::cpu::int8_form_name(kernels::int8_form()),
      dtype_name(dtype_beside_int8(int8)));
  if (ranges) {
    text += fmt::format(", inputs held to the {} ranges of {} ({}, {} samples)",
                        ranges->layers.size(), ranges->source, ranges->rule, ranges->num_samples);
  }
  log_info(text);
  say_where_slow();
}

}  // namespace fovea::train
