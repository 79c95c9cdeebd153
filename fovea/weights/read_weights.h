// Any weights file with Fovea's names.
#pragma once

#include <set>
#include <string>

#include "fovea/nn/tensor_file.h"
#include "fovea/weights/conversion.h"
#include "fovea/weights/weights_file.h"

namespace fovea::weights {

struct ReadOptions {
  std::string from = "auto";  // a naming's name; "auto" and "torch": told from the tensors' names;
                              // "hf": one of Hugging Face's
  std::string key = {};       // see read_weights_file
  // Names of the model that the weights are for, where that is known: a file that has one of them
  // alone is taken to be in Fovea's own.
  std::set<std::string> known = {};
  int64_t num_heads = 0;  // of that model; 0: not known
};

// The naming that the options ask for, or that the names tell. Null: the names stay. `path`: for
// messages. Throws ConfigError, CheckpointError.
const Naming* choose_naming(const nn::NamedTensors& tensors, const ReadOptions& options,
                            const std::string& path);

struct FoveaWeights {
  nn::NamedTensors tensors;
  std::string format;  // of the file
  std::string key;     // see WeightsFile
  std::string naming;  // "hf_vit"; empty: names as they stand in the file
  ConversionReport report;
  std::vector<std::string> left_out;  // other tensors of the file
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const MappedFile> mapped;  // see WeightsFile

  // What was read, in a few lines.
  std::string text() const;
};

// Tensors that no rule knows come under their own names, so that a model's own check sees them.
// Throws DataError, CheckpointError: see read_weights_file and to_fovea; also where only a part of
// joined tensors is there (a query without a key).
FoveaWeights read_weights(const std::string& path, const ReadOptions& options = {});

// The metadata of a safetensors file; nothing for others.
std::map<std::string, std::string> metadata_of(const std::string& path);

}  // namespace fovea::weights
