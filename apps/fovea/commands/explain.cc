// fovea explain RUN_DIR|WEIGHTS|MODEL IMAGE... --out DIR
#include "fovea/train/explain.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

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
#include "apps/fovea/predict/output_files.h"
#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/data/png.h"
#include "fovea/data/transforms/pipeline.h"
#include "fovea/models/t2t_vit.h"
#include "fovea/models/vit.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct ExplainArguments {
  InferenceArguments inference;
  std::vector<std::string> inputs;
  std::string out = "explain";
  int64_t min_side = 224;
  bool json = false;
};

// What the model takes and what is shown of it.
struct Input {
  std::string name;      // of the files that are written
  at::Tensor tensor;     // [1, C, sides...] float32, normalised
  at::Tensor displayed;  // [C, sides...] in [0, 1]
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

Input read_file(const train::Inference& inference, const std::string& path) {
  const auto samples = inference.open_files({path});
  Input input{fs::path(path).stem().string(), inference.preprocess(samples, 0, 1), {}};
  if (samples->form() == data::SampleForm::kVolume) {
    input.displayed = to_unit_range(input.tensor[0]);
  } else {
    data::Sample sample;
    samples->read(0, sample);
    input.displayed = seen_pixels(inference, sample.image);
  }
  return input;
}

std::vector<Input> read_inputs(const train::Inference& inference, const std::string& path) {
  if (!nn::is_tensor_file(path)) return {read_file(inference, path)};
  const auto stem = fs::path(path).stem().string();
  std::vector<Input> inputs;
  const auto batch = nn::read_one_tensor(path, "images").to(at::kFloat);
  if (batch.dim() < 4) {
    fail<DataError>("{}: a tensor of {} dims; expected images [B, C, H, W] or [B, C, D, H, W]",
                    path, batch.dim());
  }
  for (int64_t b = 0; b < batch.size(0); ++b) {
    inputs.push_back({batch.size(0) == 1 ? stem : fmt::format("{}_{}", stem, b),
                      batch.narrow(0, b, 1), to_unit_range(batch[b])});
  }
  return inputs;
}

struct Attention {
  std::vector<at::Tensor> blocks;  // [1, H, N, N] each
  train::TokenLayout layout;
};

// Where in the tokens of `images` each patch stands.
train::TokenLayout layout_of(const models::Vit& model, const at::Tensor& images) {
  const auto& config = model.config();
  train::TokenLayout layout;
  layout.num_prefix = config.num_prefix_tokens();
  layout.uses_class_token = config.class_token && config.global_pool == "token";
  const auto patch = config.patch_sides();
  for (size_t side = 0; side < patch.size(); ++side) {
    const int64_t pixels = images.size(static_cast<int64_t>(side) + 2);
    const int64_t extra = config.dynamic_img_pad ? patch[side] - 1 : 0;
    layout.grid.push_back((pixels + extra) / patch[side]);
  }
  return layout;
}

train::TokenLayout layout_of(const models::T2tVit& model) {
  train::TokenLayout layout;
  layout.num_prefix = 1;
  layout.uses_class_token = true;
  layout.grid = model.grid_size();
  return layout;
}

// The depth of a model whose blocks' attention can be shown, and the layout of its tokens.
std::pair<int64_t, train::TokenLayout> explained_part(const models::Model& model,
                                                      const at::Tensor& images) {
  if (const auto* vit = dynamic_cast<const models::Vit*>(&model)) {
    return {vit->config().depth, layout_of(*vit, images)};
  }
  if (const auto* t2t = dynamic_cast<const models::T2tVit*>(&model)) {
    return {t2t->config().depth, layout_of(*t2t)};
  }
  fail<ConfigError>("the model has no attention that explain knows; expected a vit or a t2t_vit");
}

Attention attend(const train::Inference& inference, models::Model& model,
                 const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  auto [depth, layout] = explained_part(model, images);
  Attention attention{{}, std::move(layout)};
  std::vector<std::string> names;
  for (int64_t i = 0; i < depth; ++i) {
    names.push_back(fmt::format("blocks.{}.attn.probs", i));
  }
  const std::string pool_name = "attn_pool.probs";
  names.push_back(pool_name);
  const nn::RecordScope recorder(names);
  model.forward(images.to(inference.compute.device, inference.compute.dtype));
  for (const auto& [name, probabilities] : recorder.intermediates()) {
    const auto on_cpu = probabilities.to(at::kCPU, at::kFloat);
    if (name == pool_name) {
      attention.layout.pool_probabilities = on_cpu;
    } else {
      attention.blocks.push_back(on_cpu);
    }
  }
  return attention;
}

// A name for the files of an input that no other input has taken.
std::string free_name(const std::string& wanted, std::set<std::string>& taken) {
  auto name = wanted;
  for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

std::vector<std::string> explain_input(const ExplainArguments& arguments,
                                       const train::Inference& inference, const Input& input,
                                       const std::string& name) {
  const auto attention = attend(inference, *inference.model, input.tensor);
  const auto pictures =
      train::explain(input.displayed, attention.blocks, attention.layout, arguments.min_side);
  std::vector<std::string> files;
  const auto put = [&](std::string_view what, const at::Tensor& picture) {
    const auto path = fs::path(arguments.out) / fmt::format("{}_{}.png", name, what);
    write_png_file(path, train::to_image(picture));
    files.push_back(path.string());
  };
  put("rollout", pictures.rollout);
  put("blocks", pictures.blocks);
  put("heads", pictures.heads);
  return files;
}

void run(ExplainArguments& arguments) {
  arguments.inference.settle(arguments.inputs);
  if (arguments.inputs.empty()) fail<Error>("no input; expected image files: IMAGE...");
  const auto inference = arguments.inference.load();
  std::error_code error;
  fs::create_directories(arguments.out, error);
  if (error) {
    fail<Error>("--out {}: the folder cannot be made: {}", arguments.out, error.message());
  }
  std::set<std::string> taken;
  for (const auto& path : arguments.inputs) {
    for (const auto& input : read_inputs(inference, path)) {
      const auto files = explain_input(arguments, inference, input, free_name(input.name, taken));
      if (arguments.json) {
        say_as_is("{}\n", json_text(nlohmann::json{{"input", path}, {"files", files}}));
        continue;
      }
      for (const auto& file : files) say("{}\n", file);
    }
  }
}

}  // namespace

void add_explain(Command app) {
  auto command =
      app.add_command("explain", "Attention maps and attention rollout over images, as PNG files");
  auto arguments = std::make_shared<ExplainArguments>();
  add_inference_options(command, arguments->inference);
  command
      .add_option("inputs", arguments->inputs,
                  "image files, or .npy/.safetensors files of images [B, C, H, W] or volumes "
                  "[B, C, D, H, W] float32, already normalised")
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
  command.add_flag("--json", arguments->json,
                   "print one JSON object an image on standard output and nothing else there");
  command.examples(
      {"fovea explain runs/flowers rose.jpg",
       "fovea explain vit_small_patch16_224 --weights vit_small.safetensors cat.jpg --out maps"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
