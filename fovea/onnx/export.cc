#include "fovea/onnx/export.h"

#include "fovea/core/error.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/models/mae.h"
#include "fovea/models/sap.h"
#include "fovea/models/t2t_vit.h"
#include "fovea/models/unetr.h"
#include "fovea/models/vit.h"
#include "fovea/onnx/operators.h"
#include "fovea/onnx/trace.h"

namespace fovea::onnx {
namespace {

// What runs, and what its outputs are called.
struct Target {
  TracedForward forward;
  std::vector<std::string> outputs;
};

Target whole(models::Model& model, bool has_head) {
  return {[&](const at::Tensor& images) { return std::vector{model.forward(images)}; },
          {has_head ? "logits" : "features"}};
}

Target encoder_of(models::Vit& vit) {
  const auto& config = vit.config();
  if (config.global_pool.empty()) {
    return {[&](const at::Tensor& images) { return std::vector{vit.forward_features(images)}; },
            {"tokens"}};
  }
  return {[&](const at::Tensor& images) {
            const auto tokens = vit.forward_features(images);
            return std::vector{tokens, vit.forward_head(tokens, /*pre_logits=*/true)};
          },
          {"tokens", "features"}};
}

// model.name of a recipe.
std::string_view recipe_name(const models::Model& model) {
  if (dynamic_cast<const models::Vit*>(&model)) return models::VitConfig::kName;
  if (dynamic_cast<const models::T2tVit*>(&model)) return models::T2tVitConfig::kName;
  if (dynamic_cast<const models::Mae*>(&model)) return models::MaeConfig::kName;
  if (dynamic_cast<const models::Unetr*>(&model)) return models::UnetrConfig::kName;
  if (dynamic_cast<const models::Sap*>(&model)) return models::SapConfig::kName;
  if (dynamic_cast<const models::DiffusionVit*>(&model)) return models::DiffusionVitConfig::kName;
  return "of this kind";
}

[[noreturn]] void refuse(const models::Model& model, const std::string& why) {
  fail<ConfigError>(
      "a model {} cannot be exported to ONNX: {}; --to safetensors writes its weights",
      recipe_name(model), why);
}

void check_takes_images(const models::Model& model) {
  if (model.takes_patches()) refuse(model, "it takes adaptive patches, not images");
}

Target target_of(models::Model& model, Part part) {
  check_takes_images(model);
  const bool is_encoder = part == Part::kEncoder;
  if (auto* vit = dynamic_cast<models::Vit*>(&model)) {
    return is_encoder ? encoder_of(*vit) : whole(model, vit->config().num_classes > 0);
  }
  if (auto* t2t = dynamic_cast<models::T2tVit*>(&model)) {
    if (!is_encoder) return whole(model, t2t->config().num_classes > 0);
    return {[t2t](const at::Tensor& images) { return std::vector{t2t->forward_features(images)}; },
            {"tokens"}};
  }
  if (auto* unetr = dynamic_cast<models::Unetr*>(&model)) {
    return is_encoder ? encoder_of(unetr->encoder()) : whole(model, true);
  }
  if (auto* mae = dynamic_cast<models::Mae*>(&model)) {
    if (!is_encoder) refuse(model, "its masks are random; --part encoder exports what it learned");
    return encoder_of(mae->encoder());
  }
  refuse(model, "the models that can be are ViT, T2T-ViT, UNETR and the encoder of a MAE");
}

}  // namespace

ExportReport export_model(models::Model& model, const std::string& path,
                          const ExportOptions& options) {
  FOVEA_CHECK(!model.is_training(), "export of a model in training mode; expected eval()");
  if (options.batch_size && *options.batch_size < 1) {
    fail<ConfigError>("a batch size of {}; expected at least 1, or none for any",
                      *options.batch_size);
  }
  const auto target = target_of(model, options.part);
  const auto spec = model.input_spec();
  auto sides = spec.img_size;
  sides.insert(sides.begin(), spec.in_chans);
  const auto trace = trace_forward(model, target.forward, sides, options.batch_size);
  std::map<std::string, at::Tensor> parameters;
  for (const auto& item : model.named_parameters()) {
    parameters[item.key()] = item.value().detach().to(at::kCPU, at::kFloat);
  }
  ExportReport report{.graph = to_graph(trace, parameters, target.outputs), .file = {}};
  report.file = write_file(path, report.graph, options.file);
  return report;
}

}  // namespace fovea::onnx
