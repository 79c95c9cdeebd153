// What `fovea convert` takes along beside the weights: the state of an optimizer, so that training
// goes on from what it writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/train/state/run_state.h"
#include "fovea/weights/moments.h"
#include "fovea/weights/plain_values.h"
#include "fovea/weights/read_weights.h"

namespace fovea::app {

struct ConvertArguments {
  std::string source, target, model, from = "auto", to = "timm", key;
  std::string checkpoint = "final";
  bool skip_head = false;
  bool partial = false;
  bool optimizer = false;
  bool weights_only = false;
  bool json = false;

  bool is_to_dcp() const { return to == "dcp"; }
  // Whether the target is a file of torch.save.
  bool is_to_torch() const;
};

// By Fovea's names.
struct StateToWrite {
  weights::NamedMoments moments;
  nn::NamedTensors average;   // empty: none
  weights::TorchDict values;  // "epoch", "step" ...: what lies beside them
  // Where the weights and the optimizer lay, and will.
  std::string weights_key = "model", optimizer_key = "optimizer";
  std::vector<std::string> left_out;

  // "AdamW after 7 steps, of 33 parameters in 2 groups, with averaged weights".
  std::string text() const;
};

// Whether the state is asked for, or goes without saying: from a file of torch to a folder of DCP
// or back. format: of the source, see weights::WeightsFile; empty: a run. Throws ConfigError for
// options that exclude each other, and targets and sources that hold none.
bool takes_state(const ConvertArguments& arguments, const std::string& format);

StateToWrite state_of_run(train::RunState& run);
// weights: those that are written, which the moments must be of; num_heads: of their model, 0: not
// known. Throws as weights::read_moments,
// and CheckpointError where they are not.
StateToWrite state_of_file(const ConvertArguments& arguments, const weights::FoveaWeights& file,
                           const nn::NamedTensors& weights, int64_t num_heads);

// Takes the tensors of such a state out of the names of what was left out.
void forget_what_is_taken(std::vector<std::string>& left_out);

// The dict to save: weights, optimizer, average and values. `written`: the weights as `naming` has
// them. Throws ConfigError, CheckpointError: a naming that moments do not follow.
weights::TorchDict saved_dict(const ConvertArguments& arguments, const weights::Naming& naming,
                              const nn::NamedTensors& written, const StateToWrite& state,
                              int64_t num_heads);

}  // namespace fovea::app
