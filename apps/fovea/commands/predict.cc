// fovea predict RUN_DIR|WEIGHTS|MODEL INPUT... [--out FILE]
// fovea predict RUN_DIR [INPUT...] --samples N [--out DIR], of a diffusion run
#include "apps/fovea/predict/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/models/variables.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::app {
namespace {

// Throws ConfigError for an intermediate that there is not.
void check_intermediates(const inference::Logits& outputs, const std::vector<std::string>& wanted) {
  if (wanted == std::vector<std::string>{"all"}) return;
  for (const auto& name : wanted) {
    const auto found = std::any_of(outputs.intermediates.begin(), outputs.intermediates.end(),
                                   [&](const auto& entry) { return entry.first == name; });
    if (found) continue;
    fail<ConfigError>(
        "--intermediates: the model gives no '{}'; `--intermediates all --out FILE.safetensors` "
        "lists "
        "what there is",
        name);
  }
}

void predict_tensor(const PredictArguments& arguments, const inference::Predictor& predictor) {
  const auto images = nn::read_one_tensor(arguments.inputs.front(), "images");
  if (images.dim() < 4) {
    fail<DataError>(
        "{}: a tensor of {} dims; expected images [B, C, H, W] float32, already normalised",
        arguments.inputs.front(), images.dim());
  }
  const auto outputs = predictor.logits(images.to(at::kFloat), arguments.intermediates);
  check_intermediates(outputs, arguments.intermediates);
  nn::NamedTensors named = {{"logits", outputs.logits}};
  named.insert(named.end(), outputs.intermediates.begin(), outputs.intermediates.end());
  const auto out = arguments.out.empty() ? std::string("predictions.npy") : arguments.out;
  nn::write_tensor_file(out, named);
  say("{}: logits of {} inputs and {} intermediates\n", out, outputs.logits.size(0),
      outputs.intermediates.size());
}

void predict_of_diffusion(const PredictArguments& arguments,
                          const inference::Predictor& predictor) {
  const bool has_tensor =
      std::any_of(arguments.inputs.begin(), arguments.inputs.end(), nn::is_tensor_file);
  if (has_tensor || !arguments.intermediates.empty()) {
    fail<ConfigError>(
        "{}: a diffusion run draws samples (fovea predict RUN --samples 64 --out DIR), or takes "
        "noise away from image or volume files; expected no tensor file and no --intermediates",
        arguments.inference.name());
  }
  if (arguments.inputs.empty()) return predict_samples(arguments, predictor);
  predict_denoised(arguments, predictor);
}

void predict_files(const PredictArguments& arguments, const inference::Predictor& predictor) {
  switch (predictor.kind()) {
    case inference::Kind::kMasks:
      return predict_masks(arguments, predictor);
    case inference::Kind::kReconstructions:
      return predict_reconstructions(arguments, predictor);
    default:
      return predict_classes(arguments, predictor);
  }
}

void run(PredictArguments& arguments) {
  arguments.inference.settle(arguments.inputs);
  const LastPredictor loaded(arguments.inference.load());
  const auto& predictor = *loaded;
  const auto& model = *predictor.loaded().model;
  models::check_channels(model, predictor.loaded().channels, arguments.inference.name());
  if (predictor.kind() == inference::Kind::kSamples) {
    return predict_of_diffusion(arguments, predictor);
  }
  const auto large = take_large_inputs(arguments);
  if (!large.empty()) {
    predict_large(arguments, large, predictor);
    if (arguments.inputs.empty()) return;
  }
  if (arguments.inputs.empty()) {
    fail<ConfigError>("no input; expected image files, or one .npy or .safetensors file");
  }
  const auto is_tensor =
      std::count_if(arguments.inputs.begin(), arguments.inputs.end(), nn::is_tensor_file);
  if (is_tensor == 0) {
    predict_files(arguments, predictor);
  } else if (arguments.inputs.size() == 1) {
    predict_tensor(arguments, predictor);
  } else {
    fail<ConfigError>(
        "{} tensor files among {} inputs; expected image files only, or one tensor file", is_tensor,
        arguments.inputs.size());
  }
}

void add_sample_options(Command command, SampleArguments& samples) {
  command.add_option("--samples", samples.count, "of a diffusion run: how many to draw")
      .positive()
      .show_default();
  command.add_option("--seed", samples.seed, "of the samples' noise").show_default();
  command.add_option("--steps", samples.steps, "passes of the model; default: task.sampler.steps")
      .positive();
  command.add_option("--sampler", samples.sampler, "ddim or ddpm; default: task.sampler.kind")
      .one_of({"ddim", "ddpm"});
  command.add_option("--class", samples.class_name,
                     "name or number of the samples' class; default: all classes in turn");
  command
      .add_option("--noise-level", samples.noise_level,
                  "of a diffusion run with INPUT: how much noise is added and taken away again, as "
                  "a share of the time steps")
      .share()
      .show_default();
  command
      .add_option("--guidance", samples.guidance,
                  "classifier-free guidance, 1: off; default: task.sampler.guidance")
      .non_negative();
}

void add_large_options(Command command, LargeArguments& large) {
  command.add_flag("--large", large.is_forced,
                   "read the inputs by region, as images that do not fit into memory; slides, raw "
                   "files and TIFF files of more than 178,956,970 pixels always are");
  command.add_option("--level", large.scale.level, "of a slide: level of its pyramid, 0 the finest")
      .non_negative();
  command
      .add_option("--mpp", large.scale.mpp,
                  "of a slide: microns a pixel, in place of its level; default: level 0")
      .positive();
  add_raw_image_options(command, large.raw, "raw-");  // --dtype is the model's
}

}  // namespace

void add_predict(Command app) {
  auto command =
      app.add_command("predict", "Labels and scores of images, or logits of a tensor file");
  auto arguments = std::make_shared<PredictArguments>();
  add_inference_options(command, arguments->inference);
  command
      .add_option(
          "inputs", arguments->inputs,
          "image files; NIfTI, NRRD or MetaImage files or folders of DICOM slices (several "
          "modalities: a;b); folders of such files, at any depth; a list of them (.csv, .jsonl); a "
          "data set as `data inspect` takes it; or one .npy/.safetensors file of images [B, C, H, "
          "W] float32, already normalised")
      .type_name("INPUT...");
  command.add_option(
      "--out", arguments->out,
      "file to write: JSON lines for images, .npy or .safetensors for a tensor file; for masks and "
      "reconstructions a folder");
  command
      .add_option("--intermediates", arguments->intermediates,
                  "names such as blocks.0.attn to write beside the logits, or all")
      .delimiter(',');
  command.add_option("--top", arguments->top, "classes shown for each image")
      .positive()
      .show_default();
  add_sample_options(command, arguments->samples);
  add_large_options(command, arguments->large);
  command.add_flag("--json", arguments->json,
                   "print one JSON object an image on standard output and nothing else there");
  command.examples({"fovea predict runs/flowers rose.jpg tulip.jpg",
                    "fovea predict runs/unetr slide.svs --mpp 0.5 --out masks",
                    "fovea predict runs/diffusion --samples 16 --out samples"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
