#include "fovea/nn/init.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/share_out.h"

namespace fovea::nn {
namespace {

bool ends_with(const std::string& name, std::string_view suffix) {
  return name.size() >= suffix.size() &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool contains(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

// "blocks.3.norm1.weight" -> "norm1": the module that owns the parameter.
std::string owner(const std::string& name) {
  const auto last = name.rfind('.');
  if (last == std::string::npos) return "";
  const auto before = name.rfind('.', last - 1);
  return name.substr(before + 1, last - before - 1);
}

// Divisor of blocks.i.attn.proj.weight and blocks.i.mlp.fc2.weight: sqrt(2 (i + 1)).
double depth_scale(const std::string& name) {
  if (!ends_with(name, ".attn.proj.weight") && !ends_with(name, ".mlp.fc2.weight")) return 1.0;
  const auto digits = name.find("blocks.");
  if (digits == std::string::npos) return 1.0;
  int64_t block = 0;
  std::from_chars(name.data() + digits + 7, name.data() + name.size(), block);
  return std::sqrt(2.0 * static_cast<double>(block + 1));
}

// Weight and bias of the patch projection (a convolution in timm).
ParameterInit patch_init(bool is_weight, int64_t num_inputs, InitScheme scheme) {
  if (scheme == InitScheme::kJax || scheme == InitScheme::kJaxNlhb) {
    // LeCun normal: variance 1 / fan_in after truncation at two standard deviations.
    constexpr double kTruncatedStd = 0.87962566103423978;
    return {is_weight ? InitRule::truncated_normal(
                            1.0 / (kTruncatedStd * std::sqrt(static_cast<double>(num_inputs))))
                      : InitRule::constant(0.0)};
  }
  return {InitRule::uniform(1.0 / std::sqrt(static_cast<double>(num_inputs)))};
}

ParameterInit linear_weight_init(const std::string& name, at::IntArrayRef shape,
                                 InitScheme scheme) {
  if (scheme == InitScheme::kTimm) return {InitRule::normal(0.02)};
  const bool is_jax = scheme != InitScheme::kMoco;
  if (is_jax && name.rfind("head", 0) == 0) return {InitRule::constant(0.0)};
  // MoCo takes q, k and v for three matrices.
  const auto rows = !is_jax && contains(name, "qkv") ? shape[0] / 3 : shape[0];
  return {InitRule::uniform(std::sqrt(6.0 / static_cast<double>(rows + shape[1])))};
}

ParameterInit linear_bias_init(const std::string& name, const VitInitOptions& options) {
  const bool is_jax = options.scheme == InitScheme::kJax || options.scheme == InitScheme::kJaxNlhb;
  if (!is_jax) return {InitRule::constant(0.0)};
  if (name.rfind("head", 0) == 0) {
    const bool is_nlhb = options.scheme == InitScheme::kJaxNlhb;
    return {InitRule::constant(is_nlhb ? -std::log(static_cast<double>(options.num_classes)) : 0)};
  }
  return {contains(name, "mlp") ? InitRule::normal(1e-6) : InitRule::constant(0.0)};
}

}  // namespace

void initialize(const at::Tensor& parameter, const std::string& name, uint64_t seed,
                const ParameterInit& init) {
  const at::NoGradGuard no_grad;
  const auto count = parameter.numel();
  const auto values = at::empty({count}, at::kFloat);
  auto* data = values.mutable_data_ptr<float>();
  const auto key = philox_key(seed, "init." + name);
  const auto half = init.second_half ? count / 2 : count;
  kernels::cpu::for_ranges(count, 1 << 14, [&](int64_t begin, int64_t end) {
    const auto middle = std::clamp(half, begin, end);
    generate(init.rule, key, begin, {data + begin, static_cast<size_t>(middle - begin)});
    if (end > middle) {
      generate(*init.second_half, key, middle, {data + middle, static_cast<size_t>(end - middle)});
    }
  });
  parameter.copy_(values.view(parameter.sizes()));
}

InitScheme init_scheme_from_name(const std::string& name) {
  if (name == "timm") return InitScheme::kTimm;
  if (name == "jax") return InitScheme::kJax;
  if (name == "jax_nlhb") return InitScheme::kJaxNlhb;
  if (name == "moco") return InitScheme::kMoco;
  fail<ConfigError>("weight_init '{}' is unknown; expected timm, jax, jax_nlhb or moco", name);
}

std::vector<std::string> init_scheme_names() { return {"timm", "jax", "jax_nlhb", "moco"}; }

ParameterInit vit_init(const std::string& name, at::IntArrayRef shape,
                       const VitInitOptions& options) {
  if (name.starts_with("pos_embed") || name == "dist_token") return {InitRule::normal(0.02)};
  if (name == "cls_token" || name == "reg_token") return {InitRule::normal(1e-6)};
  if (ends_with(name, "latent")) {
    return {InitRule::truncated_normal(1.0 / std::sqrt(static_cast<double>(shape.back())))};
  }
  if (ends_with(name, ".gamma")) return {InitRule::constant(options.layer_scale)};
  if (contains(name, ".lambda_")) return {InitRule::normal(0.1)};
  if (ends_with(name, ".mlp_bias")) return {InitRule::constant(0.0)};
  if (ends_with(name, ".norm1.weight") || ends_with(name, ".norm2.weight")) {
    return {InitRule::constant(contains(name, "blocks.") ? options.branch_norm : 1.0)};
  }
  const bool is_weight = ends_with(name, ".weight");
  if (contains(owner(name), "norm")) return {InitRule::constant(is_weight ? 1.0 : 0.0)};
  if (name.rfind("patch_embed.proj.", 0) == 0) {
    return patch_init(is_weight, options.patch_elements, options.scheme);
  }
  auto init =
      is_weight ? linear_weight_init(name, shape, options.scheme) : linear_bias_init(name, options);
  // A gate starts open and constant: weights near zero, bias one.
  const auto gate = is_weight ? InitRule::normal(1e-6) : InitRule::constant(1.0);
  if (owner(name) == "fc1_g") init.rule = gate;
  if (owner(name) == "fc1" && options.packed_gate) init.second_half = gate;
  if (options.scale_by_depth) init.rule.value /= depth_scale(name);
  return init;
}

}  // namespace fovea::nn
