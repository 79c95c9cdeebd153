#include "apps/fovea/inference_options.h"

#include <ATen/Parallel.h>

namespace fovea::app {

train::Inference InferenceArguments::load() const {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  return train::load_inference(target, options);
}

void add_inference_options(Command command, InferenceArguments& arguments) {
  command
      .add_option("target", arguments.target,
                  "run folder, recipe (the model before training), weights file or a model's name")
      .required()
      .type_name("RUN_DIR|RECIPE|WEIGHTS|MODEL");
  command.add_option("--model", arguments.options.model,
                     "the model that the weights belong to, by timm's name: vit_small_patch16_224");
  command.add_option("--weights", arguments.options.weights, "safetensors file with timm's names");
  command
      .add_option("--checkpoint", arguments.options.checkpoint,
                  "of a run folder: final, best or latest")
      .one_of({"final", "best", "latest"})
      .show_default();
  command
      .add_option("--variables", arguments.options.variables,
                  "of a model with variables: what the channels of the inputs are, such as "
                  "red,green; default: all, in the model's order")
      .delimiter(',');
  command.add_option("--device", arguments.options.device, "auto, cpu or cuda")
      .one_of({"auto", "cpu", "cuda"})
      .show_default();
  command.add_option("--dtype", arguments.options.dtype, "dtype of activations and products")
      .one_of({"float32", "bfloat16", "float16", "auto"})
      .show_default();
  command
      .add_option("--threads", arguments.threads,
                  "threads of the CPU kernels; 0: one for each core")
      .non_negative();
}

}  // namespace fovea::app
