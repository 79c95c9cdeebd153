// device.dtype: int8: which layers of a loaded model multiply 8-bit integers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/nn/block_linears.h"
#include "fovea/nn/unit.h"
#include "fovea/train/recipe/int8_ranges.h"

namespace fovea::train {

struct InferenceOptions;
struct Int8Config;
struct TrainConfig;

// What there is to say of int8 where --dtype asks for it, or a config (null: none) where --dtype is
// float32, which is its default; nothing where neither does. What options say comes first. A config
// has int8 where a recipe or a change of a run's keys asks for it, for no run trains so. Throws
// ConfigError for options of int8 without it, and for ranges that are named beside dynamic.
std::optional<Int8Config> int8_of(const InferenceOptions& options, const TrainConfig* config);

// int8.rest: of the inputs of the model, and so of all that is not multiplied as 8-bit integers.
at::ScalarType dtype_beside_int8(const Int8Config& int8);

// The ranges that calibrated int8 asks for: the named file, or the one beside the weights, which
// may be empty; nothing where activations are dynamic. Throws ConfigError where there is none,
// saying how to make it; DataError.
std::optional<Int8Ranges> int8_ranges_of(const Int8Config& int8, const std::string& weights);

// The linear layers of blocks, but for those that a name or pattern of `skip` matches
// ("blocks.*.mlp.fc2"). Throws ConfigError: a model without such layers, or on a GPU; a pattern
// that matches none.
nn::NamedLinears int8_layers(nn::UnitImpl& model, const std::vector<std::string>& skip);

// Throws CheckpointError for a weight that is not finite.
void check_int8_weight(const std::string& layer, const at::Tensor& weight);

// What tells a weight's values from others.
std::string int8_weight_checksum(const at::Tensor& weight);

// The layers of int8_layers() multiply so from now on, in passes on the CPU, as long as `copies`,
// which are of the model, live: rows held to the ranges of their layers, or (null) each row to its
// own. Says how many, and once in a process that a processor without VNNI is slow at it.
// Throws CheckpointError for a weight that is not finite; ConfigError for ranges that lack a layer,
// have one that is none, or are of other weights.
void use_int8(nn::UnitImpl& model, kernels::WeightCopies& copies, const Int8Config& int8,
              const Int8Ranges* ranges);

}  // namespace fovea::train
