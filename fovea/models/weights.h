// Weights into a model and out of it, with timm's names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/files/mapped_file.h"
#include "fovea/models/model.h"
#include "fovea/models/select_weights.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/weights/read_weights.h"

namespace fovea::models {

struct LoadOptions {
  bool resize_pos_embed = true;  // false: another grid is an error
  bool skip_head = false;        // leave head.*, head_dist.* and pre_logits.* as they are
  bool adapt_in_chans = false;   // false: another number of channels is an error
  WeightsPart part = WeightsPart::kAll;
};

inline constexpr size_t kShownNames = 12;  // of each kind, in LoadReport::text

// What became of each parameter, by name.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string>
      adapted;  // loaded after a change of shape: "pos_embed: [1, 197, 192] -> [1, 577, 192]"
  std::vector<std::string> skipped;     // left as they were, as asked
  std::vector<std::string> left_out;    // in the file only, as asked
  std::vector<std::string> missing;     // in the model only
  std::vector<std::string> unexpected;  // in the file only, with the nearest name of the model
  std::vector<std::string> mismatched;  // of another shape: name and both
  std::vector<std::string> notes;       // what else was done to the file's tensors

  bool is_complete() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  // Whether every parameter is the file's, as it stands there, and nothing of the file is left.
  bool is_plain() const {
    return is_complete() && adapted.empty() && skipped.empty() && left_out.empty() && notes.empty();
  }
  // A table, one line for each kind that occurs.
  std::string text() const;
};

// What load_weights would copy into a model, which may be on the meta device.
struct FittedWeights {
  std::map<std::string, at::Tensor>
      tensors;  // by parameter name, of its shape, in the file's dtype
  LoadReport report;
  std::shared_ptr<const MappedFile> mapped = {};  // see weights::WeightsFile

  // Throws DataError where the file changed since it was opened: call when the values have been
  // used, before what was made of them counts.
  void check_unchanged() const {
    if (mapped) mapped->check_unchanged();
  }
};

// Throws CheckpointError with the report unless everything fits. source: what messages call the
// weights.
FittedWeights fit_weights(const Model& model, const nn::NamedTensors& tensors,
                          const std::string& source, const LoadOptions& options = {});
// path: any file that weights::read_weights reads, with the names of any system that it knows. Of a
// safetensors file whose names stay, the tensors are views of the mapped file. `reading.known` is
// the model's.
FittedWeights fit_weights(const Model& model, const std::string& path,
                          const LoadOptions& options = {},
                          const weights::ReadOptions& reading = {});

// Copies `tensors` into the model's parameters, in the parameters' own dtype. Nothing is copied
// unless everything fits. Throws as fit_weights; DataError where the file changed meanwhile, and
// the model is of no use then.
LoadReport load_weights(Model& model, const nn::NamedTensors& tensors, const std::string& source,
                        const LoadOptions& options = {});
// Of a file that was read already.
LoadReport load_weights(Model& model, const weights::FoveaWeights& file, const std::string& path,
                        const LoadOptions& options = {});
LoadReport load_weights(Model& model, const std::string& path, const LoadOptions& options = {},
                        const weights::ReadOptions& reading = {});

// The model's parameters, in registration order.
nn::NamedTensors weights_of(const Model& model);

void save_weights(const Model& model, const std::string& path,
                  const std::map<std::string, std::string>& metadata = {});

}  // namespace fovea::models
