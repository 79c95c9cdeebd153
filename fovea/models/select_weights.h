// Which tensors of a weights file go into which parameters of a model: by name, nothing else.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::models {

enum class WeightsPart {
  kAll,      // every parameter of the model from the file, and every tensor of the file
  kEncoder,  // the encoder alone: of a MAE into a classifier, of a classifier into a UNETR ...
};

// "all" or "encoder". Throws ConfigError.
WeightsPart weights_part_from_name(std::string_view name);

struct SelectedWeights {
  std::map<std::string, at::Tensor> tensors;  // by the model's names; some may be unknown to it
  std::set<std::string> kept;                 // parameters that stay as they are
  std::vector<std::string> left_out;          // names of the file that go nowhere, as asked
};

// kAll: names as they are; where the model has an `encoder.` and the file has none, as the original
// MAE checkpoints, a name X that the model does not have is read as encoder.X.
//
// kEncoder: the encoder of the file is what stands under `encoder.`, or, in a file without such
// names, everything but heads (head, head_dist, pre_logits, fc_norm, attn_pool), decoders
// (decoder_*) and mask tokens. It goes to the model's `encoder.`, or to the whole model but its
// head. Class and register tokens that the model does not have are left out with their rows of the
// position embedding, and the final norm where the model has it behind its pooling (fc_norm).
// Whatever else differs is for the caller to refuse.
SelectedWeights select_weights(const Model& model, const nn::NamedTensors& tensors,
                               WeightsPart part);

}  // namespace fovea::models
