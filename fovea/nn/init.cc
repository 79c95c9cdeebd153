#include "fovea/nn/init.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

template <size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) {
  double sum = 0.0;
  for (size_t i = N; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// The standard normal quantile, relative error 1e-16: algorithm AS 241, PPND16 (Wichura 1988).
double normal_quantile(double p) {
  constexpr std::array<double, 8> kA = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                        1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                        4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                        3.3430575583588128105e+4, 2.5090809287301226727e+3};
  constexpr std::array<double, 8> kB = {1.0,
                                        4.2313330701600911252e+1,
                                        6.8718700749205790830e+2,
                                        5.3941960214247511077e+3,
                                        2.1213794301586595867e+4,
                                        3.9307895800092710610e+4,
                                        2.8729085735721942674e+4,
                                        5.2264952788528545610e+3};
  constexpr std::array<double, 8> kC = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                        5.76949722146069140550e0,  3.64784832476320460504e0,
                                        1.27045825245236838258e0,  2.41780725177450611770e-1,
                                        2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr std::array<double, 8> kD = {1.0,
                                        2.05319162663775882187e0,
                                        1.67638483018380384940e0,
                                        6.89767334985100004550e-1,
                                        1.48103976427480074590e-1,
                                        1.51986665636164571966e-2,
                                        5.47593808499534494600e-4,
                                        1.05075007164441684324e-9};
  constexpr std::array<double, 8> kE = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                        1.78482653991729133580e0,  2.96560571828504891230e-1,
                                        2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                        2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr std::array<double, 8> kF = {1.0,
                                        5.99832206555887937690e-1,
                                        1.36929880922735805310e-1,
                                        1.48753612908506148525e-2,
                                        7.86869131145613259100e-4,
                                        1.84631831751005468180e-5,
                                        1.42151175831644588870e-7,
                                        2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kA, r) / polynomial(kB, r);
  }
  double r = std::sqrt(-std::log(q < 0 ? p : 1.0 - p));
  const double tail = r <= 5.0 ? polynomial(kC, r - 1.6) / polynomial(kD, r - 1.6)
                               : polynomial(kE, r - 5.0) / polynomial(kF, r - 5.0);
  return q < 0 ? -tail : tail;
}

// One word -> one value. u in (0, 1), 32 bits, centred so that neither end comes up.
double draw(const InitRule& rule, uint32_t word) {
  constexpr double kBelowMinusTwo = 0.022750131948179207;  // of the standard normal
  const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
  switch (rule.kind) {
    case InitRule::Kind::kConstant:
      return rule.value;
    case InitRule::Kind::kNormal:
      return rule.value * normal_quantile(u);
    case InitRule::Kind::kTruncatedNormal:
      return rule.value * normal_quantile(kBelowMinusTwo + u * (1.0 - 2.0 * kBelowMinusTwo));
    case InitRule::Kind::kUniform:
      return rule.value * (2.0 * u - 1.0);
  }
  return 0.0;
}

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

void generate(const InitRule& rule, PhiloxKey key, int64_t first_index, std::span<float> out) {
  if (rule.kind == InitRule::Kind::kConstant) {
    std::fill(out.begin(), out.end(), static_cast<float>(rule.value));
    return;
  }
  PhiloxCounter words{};
  uint64_t block_in_words = ~uint64_t{0};
  for (size_t i = 0; i < out.size(); ++i) {
    const auto index = static_cast<uint64_t>(first_index) + i;
    if (index / 4 != block_in_words) {
      block_in_words = index / 4;
      words = philox4x32({static_cast<uint32_t>(block_in_words),
                          static_cast<uint32_t>(block_in_words >> 32), 0, 0},
                         key);
    }
    out[i] = static_cast<float>(draw(rule, words[index % 4]));
  }
}

void initialize(const at::Tensor& parameter, const std::string& name, uint64_t seed,
                const ParameterInit& init) {
  const at::NoGradGuard no_grad;
  const auto count = parameter.numel();
  const auto values = at::empty({count}, at::kFloat);
  auto* data = values.mutable_data_ptr<float>();
  const auto key = philox_key(seed, "init." + name);
  const auto half = init.second_half ? count / 2 : count;
  at::parallel_for(0, count, 1 << 14, [&](int64_t begin, int64_t end) {
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
  if (name == "pos_embed" || name == "dist_token") return {InitRule::normal(0.02)};
  if (name == "cls_token" || name == "reg_token") return {InitRule::normal(1e-6)};
  if (ends_with(name, "latent")) {
    return {InitRule::truncated_normal(1.0 / std::sqrt(static_cast<double>(shape.back())))};
  }
  if (ends_with(name, ".gamma")) return {InitRule::constant(options.layer_scale)};
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
