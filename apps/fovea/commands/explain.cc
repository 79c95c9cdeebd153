// fovea explain RUN_DIR|WEIGHTS|MODEL IMAGE... --out DIR
#include "fovea/inference/explain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/inference_options.h"
#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/output_files.h"
#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/write_error.h"
#include "fovea/data/png.h"
#include "fovea/data/transforms/pipeline.h"
#include "fovea/inference/explained_attention.h"
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

// What the model takes and what is shown of it.
struct Input {
  std::string name;                                   // of the files that are written
  std::shared_ptr<const train::PreparedBatch> batch;  // in one place: its tensors point into it
  at::Tensor displayed;                               // [C, sides...] in [0, 1]
  std::string part = {};  // of the file, where that is not all of it: "slice 5 of 10"
};

// The pixels that the model sees: cropped and resized, not normalised. -> [C, H, W] in [0, 1].
at::Tensor seen_pixels(const train::Inference& inference, const data::Image& image) {
  data::TransformScratch scratch;
  const auto& transforms =
      std::get<std::shared_ptr<const data::TransformPipeline>>(inference.transforms);
  const auto view = transforms->apply_to_pixels(image, data::augmentation_stream(0, 0, 0), scratch);
  auto pixels = at::empty({view.height, view.width, view.channels}, at::kByte);
  auto* bytes = pixels.mutable_data_ptr<uint8_t>();
  const int64_t row_bytes = view.width * view.channels;
  for (int64_t y = 0; y < view.height; ++y) {
    std::copy_n(view.row(y), row_bytes, bytes + y * row_bytes);
  }
  return pixels.permute({2, 0, 1}).to(at::kFloat) / 255.0;
}

// Values to [0, 1], the smallest black and the largest white.
at::Tensor to_unit_range(const at::Tensor& values) {
  const auto low = values.min(), range = (values.max() - low).clamp_min(1e-12);
  return (values - low) / range;
}

// The tile in the middle along each axis.
int64_t middle_tile(const data::Tiling& tiling) {
  int64_t index = 0;
  for (const auto& axis : tiling.axes()) index = index * axis.count + axis.count / 2;
  return index;
}

// "tile 5 of 10, from [5, 0, 0]", counted from 0.
std::string part_of(const data::Tiling& tiling, int64_t tile) {
  return fmt::format("tile {} of {}, from [{}]", tile, tiling.count(),
                     fmt::join(tiling.tile(tile).start, ", "));
}

std::shared_ptr<const train::PreparedBatch> prepared(
    const train::Inference& inference, const std::shared_ptr<const data::Dataset>& samples,
    int64_t index) {
  return std::shared_ptr<const train::PreparedBatch>(
      new train::PreparedBatch(inference.prepare(samples, index, 1)));
}

std::shared_ptr<const train::PreparedBatch> only_images(const train::Inference& inference,
                                                        const at::Tensor& images) {
  auto batch = std::make_shared<train::PreparedBatch>();
  batch->tensors.images = images.to(inference.compute.device, inference.compute.dtype);
  return batch;
}

at::Tensor displayed_values(const at::Tensor& images) {
  return to_unit_range(images.to(at::kCPU, at::kFloat)[0]);
}

Input read_file(const train::Inference& inference, const PredictInputs& inputs, int64_t i) {
  const auto samples = inputs.only(i);
  Input input;
  input.name = inputs.at(i).stem;
  if (const auto tiles = inference.cut(samples)) {
    const auto tile = middle_tile(tiles->tiling(0));
    input.batch = prepared(inference, tiles, tile);
    input.part = part_of(tiles->tiling(0), tile);
    input.displayed = displayed_values(input.batch->tensors.images);
    return input;
  }
  if (inference.model->takes_packed()) {  // one image, which is seen as a grid
    input.batch = only_images(inference, inference.preprocess(samples, 0, 1));
  } else {
    input.batch = prepared(inference, samples, 0);
  }
  if (samples->form() == data::SampleForm::kVolume) {
    input.displayed = displayed_values(input.batch->tensors.images);
  } else {
    data::Sample sample;
    samples->read(0, sample);
    input.displayed = seen_pixels(inference, sample.image);
  }
  return input;
}

std::vector<Input> read_tensor(const train::Inference& inference, const std::string& path) {
  const auto stem = fs::path(path).stem().string();
  std::vector<Input> inputs;
  const auto batch = nn::read_one_tensor(path, "images").to(at::kFloat);
  if (batch.dim() < 4) {
    fail<DataError>("{}: a tensor of {} dims; expected images [B, C, H, W] or [B, C, D, H, W]",
                    path, batch.dim());
  }
  for (int64_t b = 0; b < batch.size(0); ++b) {
    Input input;
    input.name = batch.size(0) == 1 ? stem : fmt::format("{}_{}", stem, b);
    input.displayed = to_unit_range(batch[b]);
    input.batch = only_images(inference, batch.narrow(0, b, 1));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<std::string> explain_input(const ExplainArguments& arguments,
                                       const train::Inference& inference, const Input& input,
                                       const std::string& name) {
  const auto attention =
      inference::explained_attention(inference, input.batch->tensors, arguments.noise_level);
  const auto& displayed =
      attention.seen.defined() ? displayed_values(attention.seen) : input.displayed;
  const auto pictures =
      inference::explain(displayed, attention.blocks, attention.layout, arguments.min_side);
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

void report(const std::string& path, const Input& input, const std::vector<std::string>& files,
            bool as_json) {
  if (as_json) {
    nlohmann::json line = {{"input", path}, {"files", files}};
    if (!input.part.empty()) line["part"] = input.part;
    say_as_is("{}\n", json_text(line));
    return;
  }
  if (!input.part.empty()) say("{}: {}\n", path, input.part);
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
  const auto inference = arguments.inference.load();
  std::error_code error;
  fs::create_directories(arguments.out, error);
  if (error) {
    fail<WriteError>("--out {}: the folder cannot be made: {}", arguments.out, error.message());
  }
  std::set<std::string> taken;
  const auto explain_one = [&](const std::string& path, const Input& input) {
    const auto files = explain_input(arguments, inference, input, free_name(input.name, taken));
    report(path, input, files, arguments.json);
  };
  const auto [files, tensors] = divided(arguments.inputs);
  for (const auto& path : tensors) {
    for (const auto& input : read_tensor(inference, path)) explain_one(path, input);
  }
  for_each_input(open_predict_inputs(files, inference), arguments.json,
                 [&](const PredictInputs& inputs, int64_t i) {
                   explain_one(inputs.at(i).path, read_file(inference, inputs, i));
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
