// One system's names for the weights of a vision transformer, as a table that is read in both
// directions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/nn/tensor_file.h"
#include "fovea/weights/pattern.h"

namespace fovea::weights {

// How a foreign tensor's numbers lie. D features in, H heads, K head_dim, O features out.
enum class Layout {
  kSame,
  kTransposed,    // [D, O] for a Linear's [O, D]
  kConvolution,   // [P, P, C, D] for [D, C, P, P]
  kHeadsBehind,   // [D, H, K] for [H * K, D]; a bias [H, K] for [H * K]
  kHeadsInFront,  // [H, K, O] for [O, H * K]
  // [H, 3, K, D] for [3, H, K, D], both as one dimension in front of D (a bias: none): H must be
  // known.
  kInterleaved,
};

struct Rule {
  std::vector<std::string_view> foreign;  // patterns; several: joined along dimension 0
  std::string_view fovea;                 // empty: Fovea has no such parameter
  Layout layout = Layout::kSame;
};

// What a step over all tensors did, for the report.
using Notes = std::vector<std::string>;
using Step = nn::NamedTensors (*)(nn::NamedTensors, Notes&);

struct Naming {
  std::string_view name;                // "hf_vit": for --from and --to
  std::string_view title;               // "Hugging Face's ViT": for messages
  std::vector<std::string_view> signs;  // patterns: a name that matches one tells this naming
  std::vector<Rule> rules;              // the first that matches
  bool is_written = true;               // false: read only
  Step before_reading = nullptr;        // on the foreign tensors
  Step after_reading = nullptr;         // on Fovea's
  Step before_writing = nullptr;        // on Fovea's, the inverse of after_reading
  // What after_reading does to a name, where it changes names.
  std::string (*name_after_reading)(std::string) = nullptr;
  // A pattern: where a name matches, the steps add tensors up, which moments of an optimizer do
  // not follow.
  std::string_view adds_up = {};
};

// In the order in which they are tried on a file.
const std::vector<Naming>& namings();
// Throws ConfigError with the known names.
const Naming& naming_named(std::string_view name);
std::vector<std::string> naming_names();

// The tables.
Naming huggingface_vit_naming();
Naming huggingface_dinov2_naming();
Naming huggingface_mae_naming();
Naming dinov2_naming();
Naming google_naming();
Naming rosetta_naming();
Naming mae_naming();
Naming ucf_vit_naming();
Naming t2t_vit_naming();
Naming bionemo_naming();
Naming te_naming();
Naming timm_naming();

// Steps that several tables need.

// DINOv2's position embedding has a row for the class token although registers stand between it and
// the patches; timm adds that row to the class token. mlp.w12, w3 become fc1, fc2.
nn::NamedTensors read_dinov2_tokens(nn::NamedTensors tensors, Notes& notes);
std::string read_dinov2_name(std::string name);
// The inverse: a row of zeros, and a mask token of zeros, which no forward without masks reads.
nn::NamedTensors write_dinov2_tokens(nn::NamedTensors tensors, Notes& notes);

}  // namespace fovea::weights
