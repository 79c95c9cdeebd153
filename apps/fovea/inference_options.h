// The options that predict, explain, eval and export share: which model, which weights, where.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/fovea/command_line.h"
#include "fovea/inference/predictor.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::app {

struct InferenceArguments {
  std::string target;
  train::InferenceOptions options;
  int64_t threads = 0;

  // Where --model and --weights say it all, the first word of the command is no target: it goes to
  // the front of `rest`, the words behind it. Throws Error where there is no target at all. Before
  // load().
  void settle(std::vector<std::string>& rest);
  inference::Predictor load() const;
  // What messages call it.
  const std::string& name() const;
};

// For a command that does nothing after it: it stays to the end of the process, whose memory the
// system takes back at once. Not that of a GPU, whose library is gone before.
class LastPredictor {
 public:
  explicit LastPredictor(inference::Predictor predictor);
  ~LastPredictor();
  LastPredictor(const LastPredictor&) = delete;
  LastPredictor& operator=(const LastPredictor&) = delete;

  const inference::Predictor& operator*() const { return *predictor_; }

 private:
  std::unique_ptr<inference::Predictor> predictor_;
};

// Adds --model, --weights and --checkpoint, which mean the same wherever a command uses a model.
void add_weights_options(Command command, train::InferenceOptions& options);
// These and the positional target.
void add_model_options(Command command, std::string& target, train::InferenceOptions& options);
void add_int8_skip(Command command, train::InferenceOptions& options);    // --int8-skip
void add_int8_ranges(Command command, train::InferenceOptions& options);  // --int8-ranges
// --class-names, --variables, --device, --dtype, those of int8 and --threads.
void add_compute_options(Command command, train::InferenceOptions& options, int64_t& threads);
// All of them.
void add_inference_options(Command command, InferenceArguments& arguments);
// See InferenceArguments.
void settle_target(std::string& target, const train::InferenceOptions& options,
                   std::vector<std::string>& rest);

}  // namespace fovea::app
