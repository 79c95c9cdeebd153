// device.dtype: int8: which layers of a loaded model multiply 8-bit integers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/nn/block_linears.h"
#include "fovea/nn/unit.h"

namespace fovea::train {

struct InferenceOptions;
struct TrainConfig;

// The layers that stay as they are where --dtype asks for int8, or a config (null: none) where
// --dtype is float32, which is its default; nothing where neither does. A config has it where a
// recipe or a change of a run's keys asks for it, for no run trains so. Throws ConfigError for
// layers that are named without it.
std::optional<std::vector<std::string>> int8_skip_of(const InferenceOptions& options,
                                                     const TrainConfig* config);

// The linear layers of blocks, but for those that a name or pattern of `skip` matches
// ("blocks.*.mlp.fc2"). Throws ConfigError: a model without such layers, or on a GPU; a pattern
// that matches none.
nn::NamedLinears int8_layers(nn::UnitImpl& model, const std::vector<std::string>& skip);

// From now on they multiply so, in float32 passes on the CPU, as long as `copies`, which are of the
// model, live; says how many, and once in a process that a processor without VNNI is slow at it.
// Throws CheckpointError for a weight that is not finite.
void use_int8(nn::UnitImpl& model, kernels::WeightCopies& copies,
              const std::vector<std::string>& skip);

}  // namespace fovea::train
