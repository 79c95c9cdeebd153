// Weights from one system's names to Fovea's and back, strictly: each tensor is accounted for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/nn/tensor_file.h"
#include "fovea/weights/naming.h"

namespace fovea::weights {

// What became of each tensor, by the names of the side that it was read from.
struct ConversionReport {
  std::vector<std::string> same;        // with their own names and numbers
  std::vector<std::string> converted;   // "vit.layernorm.weight -> norm.weight"
  std::vector<std::string> left_out;    // the other side has no such parameter
  std::vector<std::string> missing;     // what would have to stand beside others, and does not
  std::vector<std::string> unexpected;  // no rule knows them, or no model has what it makes of them
  Notes notes;

  bool is_complete() const { return missing.empty() && unexpected.empty(); }
  // A table, one line for each kind that occurs.
  std::string text() const;
};

struct Conversion {
  nn::NamedTensors tensors;
  // Of from_fovea: the name here of what each of the tensors was made of.
  std::vector<std::string> origins = {};
  ConversionReport report = {};
};

// The naming whose signs occur among the names; null: none does, the names may be a model's own.
const Naming* find_naming(const nn::NamedTensors& tensors);

// The name that each of `names` gets by the rules alone; empty where there is none. Several may get
// the same.
std::vector<std::string> fovea_names(const Naming& naming, const std::vector<std::string>& names);

// num_heads: of the model, which a naming with Layout::kInterleaved needs; 0: it is not known.
// Throws CheckpointError where a tensor's shape does not fit its rule; ConfigError: no num_heads.
Conversion to_fovea(const Naming& naming, nn::NamedTensors tensors, int64_t num_heads = 0);
// Throws ConfigError: a naming that is only read, no num_heads; CheckpointError: shapes.
Conversion from_fovea(const Naming& naming, nn::NamedTensors tensors, int64_t num_heads = 0);

}  // namespace fovea::weights
