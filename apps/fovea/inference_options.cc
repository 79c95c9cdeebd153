#include "apps/fovea/inference_options.h"

#include <ATen/Parallel.h>

#include <utility>

#include "fovea/core/error.h"
#include "fovea/train/recipe/inference_source.h"

namespace fovea::app {

const std::string& InferenceArguments::name() const {
  if (!target.empty()) return target;
  return options.weights.empty() ? options.model : options.weights;
}

inference::Predictor InferenceArguments::load() const {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  return inference::Predictor(target, options);
}

LastPredictor::LastPredictor(inference::Predictor predictor)
    : predictor_(std::make_unique<inference::Predictor>(std::move(predictor))) {}

LastPredictor::~LastPredictor() {
  static std::unique_ptr<inference::Predictor> kept;
  if (predictor_->loaded().compute.device.is_cpu()) kept = std::move(predictor_);
}

void settle_target(std::string& target, const train::InferenceOptions& options,
                   std::vector<std::string>& rest) {
  const bool may_be_left_out = !options.model.empty() || !options.weights.empty();
  if (target.empty()) {
    if (may_be_left_out) return;
    fail<Error>("RUN_DIR|RECIPE|WEIGHTS|MODEL is missing; --help tells more");
  }
  if (train::is_target(target, options)) return;
  rest.insert(rest.begin(), std::move(target));
  target.clear();
}

void InferenceArguments::settle(std::vector<std::string>& rest) {
  settle_target(target, options, rest);
}

void add_weights_options(Command command, train::InferenceOptions& options) {
  command.add_option("--model", options.model,
                     "the model that the weights belong to: timm's name (vit_small_patch16_224), a "
                     "recipe, or a run folder");
  command.add_option("--weights", options.weights,
                     "weights file of any system that is known, a run folder, a checkpoint, or "
                     "hf-hub:ORG/NAME[@REVISION]");
  command.add_option("--checkpoint", options.checkpoint, "of a run folder: final, best or latest")
      .one_of({"final", "best", "latest"})
      .show_default();
}

void add_model_options(Command command, std::string& target, train::InferenceOptions& options) {
  command
      .add_option("target", target,
                  "run folder, recipe (the model before training), weights file, "
                  "hf-hub:ORG/NAME[@REVISION] or a model's name; left out where --model and "
                  "--weights say it all")
      .type_name("RUN_DIR|RECIPE|WEIGHTS|MODEL");
  add_weights_options(command, options);
}

void add_int8_skip(Command command, train::InferenceOptions& options) {
  command
      .add_option("--int8-skip", options.int8_skip,
                  "with --dtype int8: layers that stay as the rest, such as blocks.*.mlp.fc2; "
                  "default: int8.skip of the recipe")
      .delimiter(',')
      .type_name("LAYERS");
}

void add_int8_ranges(Command command, train::InferenceOptions& options) {
  command
      .add_option("--int8-ranges", options.int8_ranges,
                  "with --dtype int8, calibrated: the ranges of `fovea calibrate`; default: "
                  "STEM.int8_ranges.json beside the weights")
      .type_name("FILE");
}

void add_compute_options(Command command, train::InferenceOptions& options, int64_t& threads) {
  command
      .add_option("--class-names", options.class_names,
                  "file with the names of the classes, one a line, or JSON; default: those that "
                  "the weights hold, or a file beside them (STEM.classes.txt, class_names.txt, "
                  "classes.txt, config.json)")
      .type_name("FILE");
  command
      .add_option("--variables", options.variables,
                  "of a model with variables: what the channels of the inputs are, such as "
                  "red,green; default: all, in the model's order")
      .delimiter(',');
  command.add_option("--device", options.device, "auto, cpu or cuda")
      .one_of({"auto", "cpu", "cuda"})
      .show_default();
  command
      .add_option("--dtype", options.dtype,
                  "dtype of activations and products; int8: products of 8-bit integers in the "
                  "linear layers of blocks, on the CPU")
      .one_of({"float32", "bfloat16", "float16", "int8", "auto"})
      .show_default();
  add_int8_skip(command, options);
  command
      .add_option(
          "--int8-activations", options.int8_activations,
          "with --dtype int8: dynamic, each token's own range; calibrated, a range for each "
          "layer, which `fovea calibrate` has measured; default: int8.activations of the "
          "recipe")
      .one_of({"dynamic", "calibrated"});
  add_int8_ranges(command, options);
  command
      .add_option("--int8-rest", options.int8_rest,
                  "with --dtype int8: dtype of everything else, such as attention; auto: bfloat16 "
                  "where the processor multiplies it; default: int8.rest of the recipe, or auto")
      .one_of({"auto", "bfloat16", "float32"});
  command.add_option("--threads", threads, "threads of the CPU kernels; 0: one for each core")
      .non_negative();
}

void add_inference_options(Command command, InferenceArguments& arguments) {
  add_model_options(command, arguments.target, arguments.options);
  add_compute_options(command, arguments.options, arguments.threads);
}

}  // namespace fovea::app
