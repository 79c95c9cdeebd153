// Weights as other programs leave them: which file it is, which of its tensors are the weights.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/nn/tensor_file.h"

namespace fovea::weights {

struct WeightsFile {
  nn::NamedTensors tensors;
  std::string format;                 // "safetensors", "torch", "npz", "DCP", "t5x"
  std::string key;                    // of the saved dict that they lay under; empty: none
  std::vector<std::string> notes;     // what was taken away from names, and why: for reports
  std::vector<std::string> left_out;  // tensors of the file that are no weights of one model
  std::map<std::string, std::string> metadata;  // of a safetensors file
  // What the tensors are views of, where they are; null: they have memory of their own. Whoever has
  // used their values calls check_unchanged() before the result counts.
  std::shared_ptr<const MappedFile> mapped;
};

// Reads a .safetensors, .npz or torch.save file, a folder of torch.distributed.checkpoint, or a
// checkpoint of t5x, of which the arrays below "target" are the weights; which one is told from its
// bytes. Where the weights lie below a key of the saved dict, the rule is:
//   1. `key`, where it is given ("state_dict_ema"; nested: "a.b");
//   2. none, where tensors lie in the outermost dict;
//   3. the first of state_dict, model, model_state_dict, module, network, net, teacher, model_ema,
//      state_dict_ema that holds tensors;
//   4. the only key that holds tensors.
// The state of an optimizer is left out before that, unless `key` asks for it.
// Then "module.", "_orig_mod.", "model." and "backbone." are taken off where every name has them;
// of a file of self-distillation only "teacher.backbone.", or "backbone." beside heads, is taken.
// Throws DataError: another file, damaged, hostile; CheckpointError: no such key, a key of a file
// that has none, no tensors.
WeightsFile read_weights_file(const std::string& path, const std::string& key = "");

// True where the bytes, or else the name, say safetensors. Throws DataError: no such file.
bool is_safetensors(const std::string& path);
// True for what read_weights_file takes apart from files: folders of torch.distributed.checkpoint
// and of t5x.
bool is_weights_folder(const std::string& path);

// Whether a file of torch.save, or a folder of torch.distributed.checkpoint, has tensors under
// `key`; false for every other kind of file. Throws DataError.
bool has_tensors_under(const std::string& path, std::string_view key);

// Steps of the rule above, on names alone: for tests, and for lists that were not in a file.
void take_off_prefixes(WeightsFile& file);

}  // namespace fovea::weights
