// fovea explain RUN_DIR|WEIGHTS|MODEL IMAGE... --out DIR
#include "fovea/inference/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/inference_options.h"
#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/output_files.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/write_error.h"
#include "fovea/data/image/png.h"
#include "fovea/files/atomic_file.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct ExplainArguments {
  InferenceArguments inference;
  std::vector<std::string> inputs;
  std::string out = "explain";
  int64_t min_side = 224;
  double noise_level = 0.5;
  bool json = false;
};

// [B, C, sides]
at::Tensor read_tensor(const std::string& path) {
  const auto batch = nn::read_one_tensor(path, "images").to(at::kFloat);
  if (batch.dim() < 4) {
    fail<DataError>("{}: a tensor of {} dims; expected images [B, C, H, W] or [B, C, D, H, W]",
                    path, batch.dim());
  }
  return batch;
}

std::vector<std::string> write_explained(const ExplainArguments& arguments,
                                         const inference::Attention& one, const std::string& name) {
  const auto pictures = inference::explain(one.displayed, one.attention.blocks,
                                           one.attention.layout, arguments.min_side);
  std::vector<std::string> files;
  const auto put = [&](std::string_view what, const at::Tensor& picture) {
    const auto path = fs::path(arguments.out) / fmt::format("{}_{}.png", name, what);
    fs::create_directories(path.parent_path());
    write_png_file(path, inference::to_image(picture));
    files.push_back(path.string());
  };
  put("rollout", pictures.rollout);
  put("blocks", pictures.blocks);
  put("heads", pictures.heads);
  return files;
}

void report(const std::string& path, const std::string& part, const std::vector<std::string>& files,
            bool as_json) {
  if (as_json) {
    nlohmann::json line = {{"input", path}, {"files", files}};
    if (!part.empty()) line["part"] = part;
    say_as_is("{}\n", json_text(line));
    return;
  }
  if (!part.empty()) say("{}: {}\n", path, part);
  for (const auto& file : files) say("{}\n", file);
}

// Files of images and volumes, and files of tensors.
std::pair<std::vector<std::string>, std::vector<std::string>> divided(
    const std::vector<std::string>& inputs) {
  std::pair<std::vector<std::string>, std::vector<std::string>> parts;
  for (const auto& input : inputs)
    (nn::is_tensor_file(input) ? parts.second : parts.first).push_back(input);
  return parts;
}

void run(ExplainArguments& arguments) {
  arguments.inference.settle(arguments.inputs);
  if (arguments.inputs.empty()) fail<Error>("no input; expected image files: IMAGE...");
  const auto predictor = arguments.inference.load();
  std::error_code error;
  fs::create_directories(arguments.out, error);
  if (error) {
    fail<WriteError>("--out {}: the folder cannot be made: {}", arguments.out, error.message());
  }
  std::set<std::string> taken;
  const auto explain_one = [&](const std::string& path, const std::string& name,
                               const std::vector<inference::Input>& input) {
    const auto one = predictor.attention(input, arguments.noise_level).front().get();
    report(path, one.part, write_explained(arguments, one, free_name(name, taken)), arguments.json);
  };
  const auto [files, tensors] = divided(arguments.inputs);
  for (const auto& path : tensors) {
    const auto batch = read_tensor(path);
    const auto stem = fs::path(path).stem().string();
    for (int64_t b = 0; b < batch.size(0); ++b) {
      explain_one(path, batch.size(0) == 1 ? stem : fmt::format("{}_{}", stem, b),
                  {inference::Input{batch[b]}});
    }
  }
  for_each_input(open_predict_inputs(files, predictor.loaded()), arguments.json,
                 [&](const PredictInputs& inputs, int64_t i) {
                   explain_one(inputs.at(i).path, inputs.at(i).stem, inputs.given(i));
                 });
}

}  // namespace

void add_explain(Command app) {
  auto command =
      app.add_command("explain", "Attention maps and attention rollout over images, as PNG files");
  auto arguments = std::make_shared<ExplainArguments>();
  add_inference_options(command, arguments->inference);
  command
      .add_option(
          "inputs", arguments->inputs,
          "image or volume files, folders or lists (.csv, .jsonl) of them, data sets, or "
          ".npy/.safetensors files of images [B, C, H, W] or volumes [B, C, D, H, W] float32, "
          "already normalised")
      .type_name("IMAGE...");
  command
      .add_option("--out", arguments->out,
                  "folder for NAME_rollout.png (the input beside the rollout through all "
                  "blocks), NAME_blocks.png (the mean of each block's heads) and "
                  "NAME_heads.png (each head of the last block)")
      .show_default();
  command
      .add_option("--min-side", arguments->min_side,
                  "pictures with smaller sides are enlarged by whole factors; pixels")
      .in_range(int64_t{1}, int64_t{4096})
      .show_default();
  command
      .add_option("--noise-level", arguments->noise_level,
                  "of a diffusion model: the noise in what it sees, as a share of the time steps")
      .share()
      .show_default();
  command.add_flag("--json", arguments->json,
                   "print one JSON object an image on standard output and nothing else there");
  command.examples(
      {"fovea explain runs/flowers rose.jpg",
       "fovea explain vit_small_patch16_224 --weights vit_small.safetensors cat.jpg --out maps"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
