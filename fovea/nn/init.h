// Weights at step 0: a function of (seed, parameter name, element index) alone, so that they are
// equal on every device, for every number of threads, and for every slice of a sharded parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/core/philox.h"

namespace fovea::nn {

// The distribution of one run of elements.
struct InitRule {
  enum class Kind { kConstant, kNormal, kTruncatedNormal, kUniform };
  Kind kind = Kind::kConstant;
  // The constant; the standard deviation (before truncation at two of them); the bound of uniform
  // in (-value, value).
  double value = 0.0;

  static InitRule constant(double value) { return {Kind::kConstant, value}; }
  static InitRule normal(double std) { return {Kind::kNormal, std}; }
  static InitRule truncated_normal(double std) { return {Kind::kTruncatedNormal, std}; }
  static InitRule uniform(double bound) { return {Kind::kUniform, bound}; }
};

// A parameter's rule, and that of its second half of rows where it differs (gate and value of a
// packed gated unit).
struct ParameterInit {
  InitRule rule;
  std::optional<InitRule> second_half = {};
};

// Elements first_index, first_index + 1, ... of the stream `key`.
void generate(const InitRule& rule, PhiloxKey key, int64_t first_index, std::span<float> out);

// Fills `parameter` in place. The stream is philox_key(seed, "init." + name).
void initialize(const at::Tensor& parameter, const std::string& name, uint64_t seed,
                const ParameterInit& init);

enum class InitScheme {
  kTimm,     // linear weights normal(0.02), biases zero
  kJax,      // Flax ViT: Xavier uniform, MLP biases normal(1e-6), LeCun normal patches, zero head
  kJaxNlhb,  // as kJax, head bias -log(num_classes)
  kMoco,     // MoCo v3: Xavier uniform, q, k and v each on their own
};

// "timm", "jax", "jax_nlhb" or "moco". Throws ConfigError.
InitScheme init_scheme_from_name(const std::string& name);
std::vector<std::string> init_scheme_names();

struct VitInitOptions {
  InitScheme scheme = InitScheme::kTimm;
  int64_t patch_elements = 0;   // C * P * P: inputs of one output of the patch projection
  int64_t num_classes = 0;      // for kJaxNlhb
  bool packed_gate = false;     // mlp.fc1 holds gate and value (MlpKind::kSwigluPacked)
  double layer_scale = 1e-5;    // gamma of every LayerScale
  double branch_norm = 1.0;     // norm1.weight and norm2.weight of blocks (BlockKind::kResPostNorm)
  bool scale_by_depth = false;  // attn.proj and mlp.fc2 divided by sqrt(2 (block + 1)), as in BEiT
};

// The rule for a parameter with one of timm's ViT names; shape is that of the parameter.
ParameterInit vit_init(const std::string& name, at::IntArrayRef shape,
                       const VitInitOptions& options);

}  // namespace fovea::nn
