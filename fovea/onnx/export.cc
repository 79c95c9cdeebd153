#include "fovea/onnx/export.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/models/mae.h"
#include "fovea/models/sap.h"
#include "fovea/models/t2t_vit.h"
#include "fovea/models/unetr.h"
#include "fovea/models/vit.h"
#include "fovea/nn/patchify.h"
#include "fovea/onnx/example.h"
#include "fovea/onnx/operators.h"
#include "fovea/onnx/trace.h"

namespace fovea::onnx {
namespace {

using Inputs = std::vector<at::Tensor>;

// What runs, on what, and what its outputs are called.
struct Target {
  TracedForward forward;
  std::vector<TracedInput> inputs;
  std::vector<std::string> outputs;
};

[[noreturn]] void refuse(const models::Model& model, const std::string& why) {
  fail<ConfigError>(
      "a model {} cannot be exported to ONNX: {}; --to safetensors writes its weights",
      model.recipe_name(), why);
}

TracedInput images_of(const models::Model& model) {
  const auto spec = model.input_spec();
  auto sides = spec.img_size;
  sides.insert(sides.begin(), spec.in_chans);
  return {.name = "images", .sides = sides, .help = "normalised as for training"};
}

Target encoder_of(models::Vit& vit, const std::vector<TracedInput>& inputs) {
  if (vit.config().global_pool.empty()) {
    return {
        [&](const Inputs& in) { return Inputs{vit.forward_features(in[0])}; }, inputs, {"tokens"}};
  }
  return {[&](const Inputs& in) {
            const auto tokens = vit.forward_features(in[0]);
            return Inputs{tokens, vit.forward_head(tokens, /*pre_logits=*/true)};
          },
          inputs,
          {"tokens", "features"}};
}

// In the order of patches_from.
std::vector<TracedInput> patch_inputs(const models::VitConfig& config, int64_t num_trees) {
  const auto sides = static_cast<int64_t>(config.patch_sides().size());
  const auto length = config.fixed_length;
  return {{.name = "tokens",
           .sides = {config.in_chans, length, c10::multiply_integers(config.patch_sides())},
           .help = "values of the patches along the tree, normalised as for training"},
          {.name = "sizes",
           .sides = {num_trees, length},
           .help = "longest side of each patch's leaf in pixels; 0 in the padding"},
          {.name = "centers",
           .sides = {num_trees, length, sides},
           .help = "x, y(, z) of each leaf's middle in pixels; -1 in the padding"},
          {.name = "padding",
           .sides = {num_trees, length},
           .dtype = at::kBool,
           .help = "true: no leaf"}};
}

models::PatchInput patches_from(const Inputs& in) {
  models::PatchInput patches{.tokens = in[0], .sizes = in[1], .centers = in[2], .padding = in[3]};
  patches.has_padding = true;  // there may be some
  return patches;
}

Target of_patches(models::Model& model, const models::VitConfig& config, int64_t num_trees,
                  bool has_head) {
  return {[&](const Inputs& in) { return Inputs{model.forward(patches_from(in))}; },
          patch_inputs(config, num_trees),
          {has_head ? "logits" : "features"}};
}

Target of_unetr_patches(models::Unetr& unetr, int64_t num_trees) {
  const auto& config = unetr.encoder().config();
  auto inputs = patch_inputs(config, num_trees);
  inputs.push_back(images_of(unetr));
  if (!unetr.config().is_sequence_map()) {
    int64_t cells = 1;
    const auto sides = config.img_sides(), patch = config.patch_sides();
    for (size_t i = 0; i < sides.size(); ++i) cells *= sides[i] / patch[i];
    inputs.push_back({.name = "leaf_shares",
                      .sides = {cells, config.fixed_length},
                      .help = "share of the pixels of each cell of the grid, row by row, that lie "
                              "in each leaf"});
  }
  return {[&](const Inputs& in) {
            auto patches = patches_from(in);
            patches.images = in[4];
            if (in.size() > 5) patches.leaf_shares = in[5];
            return Inputs{unetr.forward(patches)};
          },
          inputs,
          {"logits"}};
}

TracedInput kept_ids(int64_t num_kept) {
  return {.name = "ids_keep",
          .sides = {num_kept},
          .dtype = at::kLong,
          .help = "which patches the encoder sees, each once; in training they are drawn"};
}

Target of_mae(models::Mae& mae, int64_t num_trees) {
  const auto& config = mae.encoder().config();
  const auto num_patches = c10::multiply_integers(mae.encoder().grid_size());
  const auto ids = kept_ids(mae.config().num_kept(num_patches));
  if (!mae.takes_patches()) {
    return {[&](const Inputs& in) {
              return Inputs{nn::unpatchify(mae.predict(in[0], {in[1]}), config.patch_sides(),
                                           in[0].sizes().slice(2))};
            },
            {images_of(mae), ids},
            {"reconstruction"}};
  }
  auto inputs = patch_inputs(config, num_trees);
  inputs.push_back(ids);
  inputs.push_back({.name = "seen",
                    .sides = ids.sides,
                    .dtype = at::kBool,
                    .help = "false: this one of ids_keep only fills the row up"});
  return {[&](const Inputs& in) {
            return Inputs{mae.predict(patches_from(in), {.ids = in[4], .seen = in[5]})};
          },
          inputs,
          {"predictions"}};
}

// Features of time steps come from a table: in float32 their angles would lose digits.
Target of_denoiser(models::DiffusionVit& denoiser, int64_t num_time_steps, int64_t num_trees) {
  const bool has_classes = denoiser.num_classes() > 0;
  auto noisy = images_of(denoiser);
  noisy.help = "with noise, in the range that training had";
  std::vector<TracedInput> inputs = {
      noisy,
      {.name = "timesteps",
       .sides = {},
       .dtype = at::kLong,
       .help = fmt::format("0 to {}, 0 the least noisy", num_time_steps - 1)}};
  if (has_classes) {
    inputs.push_back({.name = "classes",
                      .sides = {},
                      .dtype = at::kLong,
                      .help = fmt::format("{}: no class", denoiser.num_classes())});
  }
  const auto table = denoiser.time_features(at::arange(num_time_steps, at::kLong));
  if (denoiser.takes_patches()) {
    auto patches = patch_inputs(denoiser.encoder().config(), num_trees);
    patches.front().help = "values of the patches along the tree, with noise";
    inputs.erase(inputs.begin());
    inputs.insert(inputs.begin(), patches.begin(), patches.end());
    return {[&denoiser, table, has_classes](const Inputs& in) {
              return Inputs{denoiser.denoise_with(patches_from(in), table.index_select(0, in[4]),
                                                  has_classes ? in[5] : at::Tensor())};
            },
            inputs,
            {"prediction"}};
  }
  return {[&denoiser, table, has_classes](const Inputs& in) {
            return Inputs{denoiser.denoise_with(in[0], table.index_select(0, in[1]),
                                                has_classes ? in[2] : at::Tensor())};
          },
          inputs,
          {"prediction"}};
}

Target target_of(models::Model& model, const ExportOptions& options) {
  const bool is_encoder = options.part == Part::kEncoder;
  if (is_encoder && model.takes_patches()) {
    refuse(model,
           "--part encoder is of models that take images, and it takes adaptive patches; "
           "leave --part out");
  }
  const std::vector<TracedInput> images = {images_of(model)};
  const auto whole = [&](bool has_head) -> Target {
    return {[&](const Inputs& in) { return Inputs{model.forward(in[0])}; },
            images,
            {has_head ? "logits" : "features"}};
  };
  if (auto* vit = dynamic_cast<models::Vit*>(&model)) {
    const bool has_head = vit->config().num_classes > 0;
    if (vit->takes_patches()) {
      return of_patches(model, vit->config(), options.num_trees, has_head);
    }
    return is_encoder ? encoder_of(*vit, images) : whole(has_head);
  }
  if (auto* t2t = dynamic_cast<models::T2tVit*>(&model)) {
    if (!is_encoder) return whole(t2t->config().num_classes > 0);
    return {[t2t](const Inputs& in) { return Inputs{t2t->forward_features(in[0])}; },
            images,
            {"tokens"}};
  }
  if (auto* sap = dynamic_cast<models::Sap*>(&model)) {
    return of_patches(model, sap->encoder().config(), options.num_trees, /*has_head=*/true);
  }
  if (auto* unetr = dynamic_cast<models::Unetr*>(&model)) {
    if (unetr->takes_patches()) return of_unetr_patches(*unetr, options.num_trees);
    return is_encoder ? encoder_of(unetr->encoder(), images) : whole(true);
  }
  if (auto* mae = dynamic_cast<models::Mae*>(&model)) {
    return is_encoder ? encoder_of(mae->encoder(), images) : of_mae(*mae, options.num_trees);
  }
  auto* denoiser = dynamic_cast<models::DiffusionVit*>(&model);
  if (denoiser && !is_encoder) {
    return of_denoiser(*denoiser, options.num_time_steps, options.num_trees);
  }
  refuse(model, denoiser ? "its tokens mean nothing without a time step; leave --part out"
                         : "the models that can be are ViT, T2T-ViT, MAE, UNETR, SAP and the "
                           "diffusion ViT");
}

// "fovea.inputs": {"ids_keep": "which patches ..."}
std::string described(const Graph& graph) {
  nlohmann::json inputs = nlohmann::json::object();
  for (const auto& port : graph.inputs) inputs[port.name] = port.help;
  return json_text(inputs);
}

}  // namespace

ExportReport export_model(models::Model& model, const std::string& path,
                          const ExportOptions& options) {
  FOVEA_CHECK(!model.is_training(), "export of a model in training mode; expected eval()");
  if (options.batch_size && *options.batch_size < 1) {
    fail<ConfigError>("a batch size of {}; expected at least 1, or none for any",
                      *options.batch_size);
  }
  const auto target = target_of(model, options);
  const auto trace = trace_forward(model, target.forward, target.inputs, options.batch_size);
  std::map<std::string, at::Tensor> parameters;
  for (const auto& item : model.named_parameters()) {
    parameters[item.key()] = item.value().detach().to(at::kCPU, at::kFloat);
  }
  ExportReport report{
      .graph = to_graph(trace, target.inputs, parameters, target.outputs, options.int8),
      .file = {}};
  for (const auto& node : report.graph.nodes) report.num_int8 += node.op_type == "QuantizeLinear";
  auto file = options.file;
  file.metadata["fovea.inputs"] = described(report.graph);
  report.file = write_file(path, report.graph, file);
  return report;
}

Example make_example(models::Model& model, const ExportOptions& options, int64_t count,
                     uint64_t seed) {
  const at::NoGradGuard no_grad;
  const auto target = target_of(model, options);
  Example example;
  Inputs inputs;
  for (const auto& input : target.inputs) {
    inputs.push_back(example_input(model, input, count, options.num_time_steps, seed++));
    example.inputs[input.name] = inputs.back();
  }
  const auto outputs = target.forward(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) example.outputs[target.outputs[i]] = outputs[i];
  return example;
}

}  // namespace fovea::onnx
